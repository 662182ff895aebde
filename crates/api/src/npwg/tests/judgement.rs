use serde_json::json;

use crate::npwg::{AttachmentNeeds, MOST_NAMED, digest, listed};

#[test]
fn needs_of_nad_are_those_of_the_list_that_is_executed() {
    let overlay = r#" {"type": "ovn-k8s-cni-overlay", "cniVersion": "1.0.0"}
"#;
    let needs = AttachmentNeeds::of_nad(overlay, "tenant-a").unwrap();
    let masters = [("plugins[0].name".to_owned(), "tenant-a".to_owned())];
    assert_eq!(needs.masters, masters);
    assert_eq!(needs.digest, digest(overlay.trim()));
    assert_eq!((needs.unknown, needs.refused), (vec![], vec![]));
}

#[test]
fn nad_without_plugins_is_refused() {
    let needs = AttachmentNeeds::of_nad(r#"{"plugins": []}"#, "a").unwrap();
    let refused = [("plugins".to_owned(), "the list has no plugins".to_owned())];
    assert_eq!(needs.refused, refused);
    assert!(AttachmentNeeds::of_nad("[]", "a").is_err());
}

#[test]
fn list_of_many_long_texts_is_one_short_line() {
    let mut config = json!({"type": "macvlan"});
    for number in 0..10_000 {
        config[format!("{number:05}\n{}", "k".repeat(1_000))] = 1.into();
    }
    let needs = AttachmentNeeds::of_nad(&config.to_string(), "a").unwrap();
    let text = listed(
        needs
            .unknown
            .iter()
            .map(|(path, why)| format!("{path}: {why}")),
        "; ",
    );
    assert!(text.ends_with(", and 9995 more"), "{text}");
    assert!(text.starts_with(r"plugins[0].00000\nkkk"), "{text}");
    assert!(
        text.len() < MOST_NAMED * 250 && !text.contains('\n'),
        "{text}"
    );
    assert_eq!(listed(["a", "b"], "; "), "a; b");
}

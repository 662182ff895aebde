//! The order in which delegates are executed.

use serde_json::json;

use super::fixture::MultinetNode;
use super::recorder;

/// The default network, `shop/one` and `shop/bad` with one plugin, and `shop/two` with two.
fn node() -> Option<MultinetNode> {
    let node = MultinetNode::new()?;
    recorder::install(&["default", "one", "two", "last", "bad"]);
    let list = |plugins| json!({"cniVersion": "1.0.0", "plugins": plugins});
    node.define_by_digest("shop/one", &list(json!([{"type": "one"}])));
    node.define_by_digest(
        "shop/two",
        &list(json!([{"type": "two"}, {"type": "last"}])),
    );
    node.define_by_digest("shop/bad", &list(json!([{"type": "bad", "fails": true}])));
    Some(node)
}

/// Neither the names of NADs nor those of interfaces are in this order.
const NETWORKS: &str =
    r#"[{"name": "two", "interface": "z0"}, {"name": "one"}, {"name": "two", "interface": "a0"}]"#;

#[test]
fn add_goes_in_the_order_of_the_annotation_and_del_in_reverse() {
    let Some(node) = node() else { return };
    let pod = node.pod("web");
    let before = node.inventory();
    let config = recorder::default_network("default", &json!({}));
    let add = node.call("ADD", &pod, Some(NETWORKS), config.clone());
    add.succeed().unwrap();
    assert_eq!(
        recorder::calls(),
        [
            "default ADD eth0",
            "two ADD z0",
            "last ADD z0",
            "one ADD net2",
            "two ADD a0",
            "last ADD a0",
        ]
    );
    recorder::forget();
    // The annotation may be another one by now.
    let del = node.call("DEL", &pod, Some("one"), config);
    del.succeed().unwrap();
    assert_eq!(
        recorder::calls(),
        [
            "last DEL a0",
            "two DEL a0",
            "one DEL net2",
            "last DEL z0",
            "two DEL z0",
            "default DEL eth0",
        ]
    );
    assert_eq!(node.inventory(), before);
}

#[test]
fn first_failure_undoes_in_reverse_and_tries_no_further_network() {
    let Some(node) = node() else { return };
    let pod = node.pod("web");
    let before = node.inventory();
    let config = recorder::default_network("default", &json!({}));
    let add = node.call("ADD", &pod, Some("one,two,bad,one"), config);
    let (code, error) = add.fail().unwrap();
    assert_eq!(code, 100, "{error}");
    assert!(error.contains("shop/bad, interface net3: "), "{error}");
    assert_eq!(
        recorder::calls(),
        [
            "default ADD eth0",
            "one ADD net1",
            "two ADD net2",
            "last ADD net2",
            "bad ADD net3",
            "bad DEL net3",
            "last DEL net2",
            "two DEL net2",
            "one DEL net1",
            "default DEL eth0",
        ]
    );
    assert_eq!(node.inventory(), before);
}

use crate::npwg::{DEFAULT_NETWORK, InterfaceNames, NETWORKS, PodSelections, PodSelectionsError};

fn selections(
    networks: Option<&str>,
    default_network: Option<&str>,
) -> Result<PodSelections, PodSelectionsError> {
    PodSelections::of(
        "shop",
        networks,
        default_network,
        InterfaceNames::Net,
        "eth0",
    )
}

#[test]
fn selections_have_both_annotations_and_names_of_interfaces() {
    assert_eq!(selections(None, None), Ok(PodSelections::default()));
    let found = selections(Some("a,infra/b@x0,c"), Some("other")).unwrap();
    let networks = found.networks.iter();
    let networks: Vec<(String, &str)> = networks
        .map(|(it, interface)| (it.nad.to_string(), interface.as_str()))
        .collect();
    let expected = [("shop/a", "net1"), ("infra/b", "x0"), ("shop/c", "net3")];
    assert_eq!(
        networks,
        expected.map(|(nad, interface)| (nad.to_owned(), interface))
    );
    let default_network = found.default_network.map(|it| it.nad.to_string());
    assert_eq!(default_network.as_deref(), Some("kube-system/other"));
}

#[test]
fn error_names_its_annotation() {
    for (networks, default_network, annotation, expected) in [
        (Some("a,,b"), Some("x,y"), NETWORKS, "entry 2"),
        (
            Some("a@eth0"),
            None,
            NETWORKS,
            "interface name \"eth0\" is taken",
        ),
        (
            None,
            Some("x,y"),
            DEFAULT_NETWORK,
            "a pod has one default network",
        ),
        (Some("a"), Some("X"), DEFAULT_NETWORK, "not a DNS label"),
    ] {
        let error = selections(networks, default_network).unwrap_err();
        assert_eq!((error.annotation, error.is_forbidden), (annotation, false));
        assert!(error.to_string().contains(expected), "{error}");
        assert!(
            error.to_string().contains(&format!("{annotation}: ")),
            "{error}"
        );
    }
}

#[test]
fn network_of_tenant_in_place_of_default_one_is_forbidden() {
    let error = selections(None, Some("shop/lan")).unwrap_err();
    assert!(error.is_forbidden);
    let expected = "only NetworkAttachmentDefinitions of kube-system stand in for the default network, and not shop/lan";
    assert_eq!(error.error.to_string(), expected);
}

#[test]
fn network_in_place_of_the_default_one_takes_neither_its_interface_nor_a_second_default_route() {
    let leading = r#"[{"name": "a", "default-route": ["10.0.0.1"]}]"#;
    let error = selections(Some(leading), Some(leading)).unwrap_err();
    assert!(error.to_string().contains("several networks"), "{error}");
    assert!(selections(Some("a"), Some(leading)).is_ok());
    let named = |name: &str| format!(r#"[{{"name": "a", "interface": "{name}"}}]"#);
    let error = selections(None, Some(&named("eth1"))).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the runtime names the interface"),
        "{error}"
    );
    assert!(selections(None, Some(&named("eth0"))).is_ok());
}

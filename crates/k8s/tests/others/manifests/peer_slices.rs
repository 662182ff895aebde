//! Peer slices, as the controller writes them and agents read them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kube::core::cel::{Validator, compile_schema};
use netqos_core::objects::PeerSlice;
use netqos_core::plan::SetId;
use netqos_core::{Digest, NetworkKey, ObjectName};
use netqos_k8s::{NetworkQoSPeerSlice, convert, definitions};
use proptest::collection::btree_set;
use proptest::prelude::*;
use serde_json::{Value, json};

fn slice() -> impl Strategy<Value = PeerSlice> {
    let network = prop_oneof![
        Just(NetworkKey::Default),
        ("[a-z]{1,9}", "[a-z.]{1,9}").prop_map(|(namespace, name)| NetworkKey::Attachment(
            ObjectName::new(&namespace, &name)
        )),
        "[a-z]{1,9}".prop_map(|name| NetworkKey::Cluster(name.as_str().into())),
    ];
    let addresses = btree_set(any::<IpAddr>().prop_map(|it| it.to_canonical()), 0..256);
    ("[a-z]{1,9}", any::<u64>(), network, addresses).prop_map(
        |(namespace, set, network, addresses)| PeerSlice {
            name: ObjectName::new(&namespace, "peers"),
            set: SetId(Digest::from_bits(set)),
            network,
            addresses,
        },
    )
}

fn read(object: &Value) -> Result<PeerSlice, String> {
    let object: NetworkQoSPeerSlice =
        serde_json::from_value(object.clone()).map_err(|error| error.to_string())?;
    convert::peer_slice(&object).map_err(|error| error.to_string())
}

fn object() -> Value {
    json!({
        "apiVersion": "netqos.io/v1alpha1",
        "kind": "NetworkQoSPeerSlice",
        "metadata": {
            "namespace": "games",
            "name": "peers-0473ef2dc0d324ab-0",
            "labels": {"netqos.io/peer-set": "0473ef2dc0d324ab"},
        },
        "network": "default",
        "addresses": ["10.0.0.1", "fd00::1"],
    })
}

/// What an API server says of an object by the rules of the schema.
fn server_says(object: &Value) -> Vec<String> {
    let [_, definition, ..] = definitions();
    let crd = serde_json::to_value(definition.crd().unwrap()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let told = Validator::new().validate_compiled(&compile_schema(schema), object, None);
    let errors = told.err().into_iter().flatten();
    errors
        .map(|error| format!("{}: {}", error.field_path, error.message))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_slice_is_read_as_it_is_written(slice in slice()) {
        let written = serde_json::to_value(NetworkQoSPeerSlice::of(&slice)).unwrap();
        prop_assert_eq!(read(&written), Ok(slice));
        prop_assert_eq!(server_says(&written), Vec::<String>::new());
    }
}

#[test]
fn a_slice_is_an_object_of_its_kind_and_says_nothing_twice() {
    let slice = read(&object()).unwrap();
    let addresses: BTreeSet<IpAddr> =
        ["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()].into();
    assert_eq!(slice.addresses, addresses);
    assert_eq!(
        serde_json::to_value(NetworkQoSPeerSlice::of(&slice)).unwrap(),
        object()
    );
    // Items of a list do not say what they are.
    let mut item = object();
    item.as_object_mut()
        .unwrap()
        .retain(|name, _| name != "kind" && name != "apiVersion");
    assert_eq!(read(&item), Ok(slice));
}

#[test]
fn an_ipv4_address_written_as_ipv6_is_written_as_a_server_takes_it() {
    let mut slice = read(&object()).unwrap();
    slice.addresses = ["::ffff:10.0.0.7".parse().unwrap()].into();
    let written = serde_json::to_value(NetworkQoSPeerSlice::of(&slice)).unwrap();
    assert_eq!(written["addresses"], json!(["10.0.0.7"]));
    assert_eq!(server_says(&written), Vec::<String>::new());
}

#[test]
fn what_cannot_be_read_is_told_with_its_field() {
    let changed = |path: &str, value: Value| {
        let mut object = object();
        *object.pointer_mut(path).unwrap() = value;
        object
    };
    let many: Vec<String> = (0..257)
        .map(|it| format!("10.0.{}.{}", it / 256, it % 256))
        .collect();
    for (object, says) in [
        (
            changed("/metadata/name", json!("")),
            "metadata.name: missing",
        ),
        (
            changed("/metadata/labels", json!({})),
            "metadata.labels[netqos.io/peer-set]: missing",
        ),
        (
            changed("/metadata/labels", json!({"netqos.io/peer-set": "web"})),
            "metadata.labels[netqos.io/peer-set]: \"web\" is not 16 hexadecimal digits",
        ),
        (
            changed("/network", json!("a/b/c")),
            "network: \"a/b/c\" is no network",
        ),
        (
            changed("/addresses/1", json!("10.0.0.256")),
            "addresses[1]: \"10.0.0.256\" is no address",
        ),
        (
            changed("/addresses", json!(many)),
            "addresses: 257 are more than 256",
        ),
        (
            changed("/addresses", json!("10.0.0.1")),
            "invalid type: string",
        ),
    ] {
        let error = read(&object).unwrap_err();
        assert!(error.starts_with(says), "{error}");
    }
    let wrong = server_says(&changed("/addresses/1", json!("10.0.0.256")));
    assert_eq!(
        wrong,
        ["addresses[1]: not an address such as 10.0.0.1 or 2001:db8::1"]
    );
}

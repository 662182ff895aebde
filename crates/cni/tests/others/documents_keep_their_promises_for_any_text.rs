//! The promises of parsers, on texts that are random, or nearly right.

use netqos_promises as promises;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

/// A value that may stand anywhere.
fn stray() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z0-9.:/]{0,9}".prop_map(Value::from),
        Just(json!([{}, []])),
        Just(json!({"": {"a": 1e-7}})),
    ]
}

/// One of these texts.
fn one_of(texts: &'static [&'static str]) -> BoxedStrategy<Value> {
    select(texts).prop_map(Value::from).boxed()
}

fn number() -> BoxedStrategy<Value> {
    select(&[0_u64, 1, 1500, 4_294_967_295, 4_294_967_296][..])
        .prop_map(Value::from)
        .boxed()
}

/// An object with most of these fields, most of whose values are of the right kind.
fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let field = |(key, right): (&'static str, BoxedStrategy<Value>)| {
        prop_oneof![
            12 => right.prop_map(move |value| Some((key, value))),
            3 => Just(None),
            1 => stray().prop_map(move |value| Some((key, value))),
        ]
    };
    let fields: Vec<_> = fields.into_iter().map(field).collect();
    fields
        .prop_map(|fields| {
            let fields = fields.into_iter().flatten();
            Value::Object(fields.map(|(k, v)| (k.to_owned(), v)).collect())
        })
        .boxed()
}

/// A list of up to four, which may be `null`.
fn list(item: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    prop_oneof![9 => vec(item, 0..5).prop_map(Value::from), 1 => Just(Value::Null)].boxed()
}

fn prefix() -> BoxedStrategy<Value> {
    one_of(&[
        "10.1.0.5/16",
        "0.0.0.0/0",
        "fd00::5/64",
        "::ffff:10.0.0.1/96",
    ])
}

fn address() -> BoxedStrategy<Value> {
    one_of(&["10.1.0.1", "fd00::1", ""])
}

fn route() -> BoxedStrategy<Value> {
    object(vec![
        ("dst", prefix()),
        ("gw", address()),
        ("mtu", number()),
        ("scope", number()),
        ("x", stray().boxed()),
    ])
}

/// An address, with the fields of all forms.
fn ip() -> BoxedStrategy<Value> {
    let certain = |key: &'static str, value: BoxedStrategy<Value>| {
        value.prop_map(move |value| (key.to_owned(), value))
    };
    let rest = object(vec![
        ("gateway", address()),
        ("interface", number()),
        ("version", one_of(&["4", "6"])),
        ("routes", list(route())),
        ("x", stray().boxed()),
    ]);
    (certain("address", prefix()), certain("ip", prefix()), rest)
        .prop_map(|(new, old, rest)| {
            let mut whole: Map<_, _> = [new, old].into_iter().collect();
            whole.extend(rest.as_object().cloned().unwrap_or_default());
            Value::Object(whole)
        })
        .boxed()
}

/// A result, with the fields of all forms.
fn result() -> BoxedStrategy<Value> {
    let versions = &[
        "", "0.1.0", "0.2.0", "0.3.0", "0.4.0", "1.0.0", "1.1.0", "1.1",
    ];
    let interface = object(vec![
        ("name", one_of(&["eth0", "veth1", ""])),
        ("mac", one_of(&["02:00:00:00:00:01"])),
        ("mtu", number()),
        ("sandbox", one_of(&["/run/netns/a", ""])),
        ("pciID", one_of(&["0000:00:1f.6"])),
        ("x", stray().boxed()),
    ]);
    let dns = object(vec![
        ("nameservers", list(address())),
        ("domain", one_of(&["a.b"])),
        ("x", stray().boxed()),
    ]);
    object(vec![
        ("cniVersion", one_of(versions)),
        ("interfaces", list(interface)),
        ("ips", list(ip())),
        ("ip4", ip()),
        ("ip6", ip()),
        ("routes", list(route())),
        ("dns", dns),
        ("x", stray().boxed()),
    ])
}

/// A plugin's configuration.
fn plugin() -> BoxedStrategy<Value> {
    object(vec![
        ("type", one_of(&["bridge", "bandwidth"])),
        (
            "cniVersion",
            one_of(&["0.2.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0", "1.2.0", "x"]),
        ),
        ("name", one_of(&["net", "n-1.x", "net.2", "-n"])),
        (
            "capabilities",
            object(vec![("bandwidth", Just(json!(true)).boxed())]),
        ),
        (
            "runtimeConfig",
            object(vec![("bandwidth", stray().boxed())]),
        ),
        ("prevResult", result()),
        ("cni.dev/valid-attachments", list(living())),
        ("x", stray().boxed()),
    ])
}

fn living() -> BoxedStrategy<Value> {
    object(vec![
        ("containerID", one_of(&["c1", "c2"])),
        ("ifname", one_of(&["eth0"])),
    ])
}

fn network() -> BoxedStrategy<Value> {
    let switch = || one_of(&["true", "False", "yes"]);
    object(vec![
        ("name", one_of(&["net", "../x"])),
        ("cniVersion", one_of(&["0.3.1", "1.0.0", "2.0.0", "1.x"])),
        ("cniVersions", list(one_of(&["1.1.0", "0.4.0", "3.0.0"]))),
        ("disableCheck", switch()),
        ("loadOnlyInlinedPlugins", switch()),
        ("plugins", list(plugin())),
    ])
}

/// The seven variables and standard input, as `plugin_call` takes them.
fn call() -> impl Strategy<Value = String> {
    let variable = |right: &'static str, wrong: &'static str| prop_oneof![9 => Just(right.to_owned()), 1 => wrong];
    let commands = &["ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION"];
    let command =
        prop_oneof![12 => select(&commands[..]).prop_map(str::to_owned), 1 => "[A-Z]{0,3}"];
    let netns = prop_oneof![
        4 => Just("/nowhere/ns".to_owned()),
        1 => Just(String::new()),
        1 => Just("/proc/thread-self/ns/net".to_owned()),
        1 => ".{0,9}",
    ];
    (
        command,
        variable("c1", "[-a-z/]{0,4}"),
        netns,
        variable("eth0", "[a-z./: ]{0,17}"),
        variable("IgnoreUnknown=1;K8S_POD_NAME=a", "[A-Za-z=;]{0,20}"),
        variable("/opt/cni/bin:/usr/lib/cni", "[a-z/:]{0,9}"),
        variable("", "1|true|x"),
        prop_oneof![12 => plugin().prop_map(|config| config.to_string()), 1 => ".{0,60}"],
    )
        .prop_map(|(a, b, c, d, e, f, g, stdin)| [a, b, c, d, e, f, g, stdin].join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn results(text in prop_oneof![12 => result().prop_map(|value| value.to_string()), 1 => ".{0,60}"]) {
        promises::cni_result(&text);
    }

    #[test]
    fn plugin_calls(text in prop_oneof![12 => call(), 1 => "(.|\n){0,100}"]) {
        promises::plugin_call(&text);
    }

    #[test]
    fn network_lists(text in prop_oneof![
        6 => network().prop_map(|value| value.to_string()),
        6 => plugin().prop_map(|value| value.to_string()),
        1 => ".{0,60}",
    ]) {
        promises::network_list(&text);
    }

    #[test]
    fn attachment_tags(text in prop_oneof![
        "netqos(:[a-zA-Z0-9_.-]{0,4}){2,4}",
        "[a-z0-9_.:-]{1,4}\n[a-z0-9_.:-]{1,4}\n[ -~]{1,16}",
        "(.|\n){0,60}",
    ]) {
        promises::attachment_tag(&text);
    }
}

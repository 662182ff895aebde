//! Each code of the table: objects of which it is said, and what of them makes the difference.

use std::collections::BTreeSet;

use netqos_analysis::CODES;
use serde_json::{Value, json};

use crate::objects::{
    annotated, attachment_policy, in_force, nad, object, pod, policy, report, said, selecting, to,
    web,
};

struct Case {
    /// What is to be said, and of what.
    head: &'static str,
    /// What the words have in them.
    words: &'static str,
    wrong: Vec<Value>,
    /// With which nothing of this code is said.
    right: Vec<Value>,
}

fn case(head: &'static str, words: &'static str, wrong: Vec<Value>, right: Vec<Value>) -> Case {
    Case {
        head,
        words,
        wrong,
        right,
    }
}

fn of_objects() -> Vec<Case> {
    let ten = json!([to("10.0.0.0/8")]);
    let one = || policy("games/one", "web", 5, &ten);
    let quota = |max: u8| {
        object(
            "NetworkQoSQuota",
            "tenants",
            &json!({"spec": {"priority": {"max": max}}}),
        )
    };
    let on = |network: &str| {
        let selector = json!([{
            "networkSelectionType": "NetworkAttachmentDefinitions",
            "networkAttachmentDefinitionSelector": {
                "namespaceSelector": {},
                "networkSelector": {"matchLabels": {"net": network}}
            }
        }]);
        let mut policy = one();
        policy["spec"]["networkSelectors"] = selector;
        policy
    };
    let refers = |name: &str| {
        let mut policy = one();
        policy["spec"]["netAttachRefs"] =
            json!([{"kind": "NetworkAttachmentDefinition", "namespace": "games", "name": name}]);
        policy
    };
    let of_class = |class: &str| {
        let labels = json!({"app": "web", "koordinator.sh/qosClass": class});
        pod("games/a", "web", &json!({"metadata": {"labels": labels}}))
    };
    let definition = || {
        object(
            "NetworkAttachmentDefinition",
            "games/blue",
            &json!({"spec": {}}),
        )
    };
    vec![
        case(
            "Error [NQOS0101] (NetworkQoS games/one)",
            "spec.priority",
            vec![policy("games/one", "web", 101, &ten)],
            vec![one()],
        ),
        case(
            "Error [NQOS0103] (NetworkQoS games/one)",
            "spec.priority",
            vec![one(), web("games/a"), quota(4)],
            vec![one(), web("games/a"), quota(5)],
        ),
        case(
            "Error [NQOS0104] (NetworkQoS games/one)",
            "games/red",
            vec![refers("red"), definition(), web("games/a")],
            vec![refers("blue"), definition(), web("games/a")],
        ),
        case(
            "Error [NQOS0101] (Pod games/a)",
            "\"be\" is no class: write",
            vec![of_class("be")],
            vec![of_class("BE")],
        ),
        case(
            "Warning [NQOS0106] (Pod games/a)",
            "write netqos.io/egress-burst in metadata.annotations",
            vec![annotated(
                "games/a",
                &json!({"netqos.io/egress-brust": "1M"}),
            )],
            vec![of_class("BE")],
        ),
        case(
            "Warning [NQOS0201] (NetworkQoS games/one)",
            "none of the 1 pod of namespace games has the labels app=web",
            vec![one(), pod("games/a", "db", &json!({}))],
            vec![one(), web("games/a")],
        ),
        case(
            "Info [NQOS0202] (NetworkQoS games/one)",
            "no pod in namespace games",
            vec![one(), web("shop/a")],
            vec![one(), web("games/a")],
        ),
        case(
            "Info [NQOS0208] (NetworkQoS games/one)",
            "of the 2 pods that it selects, 1 is in the node's own network, such as games/h",
            vec![
                one(),
                web("games/a"),
                pod("games/h", "web", &json!({"spec": {"hostNetwork": true}})),
            ],
            vec![one(), web("games/a")],
        ),
        case(
            "Warning [NQOS0209] (NetworkQoS games/one)",
            "none of which is on a network",
            vec![on("blue"), web("games/a")],
            vec![one(), web("games/a")],
        ),
    ]
}

fn of_rules() -> Vec<Case> {
    let both = |high: &Value, low: &Value| {
        let (high, low) = (json!([high]), json!([low]));
        vec![
            policy("games/one", "web", 5, &low),
            policy("games/two", "web", 6, &high),
            web("games/a"),
        ]
    };
    let to_pods = |selector: &Value| json!({"dscp": 1, "classifier": {"to": [selector]}});
    let db = || pod("shop/db", "db", &json!({}));
    let goes = |selector: &Value| {
        let egress = json!([to_pods(selector)]);
        vec![policy("games/one", "web", 5, &egress), web("games/a"), db()]
    };
    let app = json!({"matchLabels": {"app": "db"}});
    let shadowed = "Warning [NQOS0204] (NetworkQoS games/one)";
    let by_two = "egress[0] of NetworkQoS games/two";
    let port = |port: u16| json!({"dscp": 1, "classifier": {"ports": [{"protocol": "TCP", "port": port}]}});
    let except = json!({"dscp": 1, "classifier": {"to": [
        {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.2.0/24"]}}
    ]}});
    let wide = to_pods(&json!({"podSelector": {}}));
    let narrow = to_pods(&json!({"podSelector": {"matchLabels": {"app": "web"}}}));
    let burst = |burst: u32| {
        let egress = json!([{"dscp": 1, "bandwidth": {"rate": 100_000, "burst": burst}}]);
        vec![policy("games/one", "web", 5, &egress), web("games/a")]
    };
    vec![
        case(
            "Warning [NQOS0203] (NetworkQoS games/one)",
            "spec.egress[0].classifier.to[0]: there are no pods app=db in its own namespace",
            goes(&json!({"podSelector": app})),
            goes(&json!({"podSelector": app, "namespaceSelector": {}})),
        ),
        case(
            shadowed,
            by_two,
            both(&to("10.0.0.0/8"), &to("10.1.0.0/16")),
            both(&to("10.1.0.0/16"), &to("10.0.0.0/8")),
        ),
        case(
            shadowed,
            by_two,
            both(&json!({"dscp": 2}), &to("::/0")),
            both(&to("0.0.0.0/0"), &to("::/0")),
        ),
        // A hole in the wider one lets the narrower one decide there.
        case(
            shadowed,
            by_two,
            both(&except, &to("10.1.3.0/24")),
            both(&except, &to("10.1.0.0/16")),
        ),
        case(
            shadowed,
            by_two,
            both(&port(80), &port(80)),
            both(&port(80), &port(81)),
        ),
        case(shadowed, by_two, both(&wide, &narrow), both(&narrow, &wide)),
        case(
            "Warning [NQOS0205] (NetworkQoS games/one)",
            "games/two",
            vec![
                policy("games/one", "web", 5, &json!([to("10.0.0.0/8")])),
                policy("games/two", "web", 5, &json!([to("11.0.0.0/8")])),
                web("games/a"),
            ],
            both(&to("10.0.0.0/8"), &to("11.0.0.0/8")),
        ),
        case(
            "Warning [NQOS0206] (NetworkQoS games/one)",
            "spec.egress[0].bandwidth.burst",
            burst(1),
            burst(10_000),
        ),
    ]
}

fn of_pods() -> Vec<Case> {
    let egress = |rate: &str| json!({"kubernetes.io/egress-bandwidth": rate});
    let profile = || {
        let spec = json!({"podSelector": {}, "egress": {"rate": "5M"}});
        object("BandwidthProfile", "games/all", &json!({"spec": spec}))
    };
    let mut on_host = annotated("games/a", &egress("10M"));
    on_host["spec"]["hostNetwork"] = true.into();
    vec![
        case(
            "Error [NQOS0301] (Pod games/a)",
            "egress-bandwidth",
            vec![annotated("games/a", &egress("fast"))],
            vec![annotated("games/a", &egress("10M"))],
        ),
        case(
            "Error [NQOS0302] (Pod games/a)",
            "unreasonably small",
            vec![annotated("games/a", &egress("999"))],
            vec![annotated("games/a", &egress("1k"))],
        ),
        case(
            "Info [NQOS0303] (Pod games/a)",
            "its egress annotation of 10 Mbit/s decides, and not BandwidthProfile games/all",
            vec![annotated("games/a", &egress("10M")), profile()],
            vec![
                annotated(
                    "games/a",
                    &json!({"kubernetes.io/ingress-bandwidth": "10M"}),
                ),
                profile(),
            ],
        ),
        case(
            "Warning [NQOS0304] (Pod games/a)",
            "no effect",
            vec![on_host],
            vec![annotated("games/a", &egress("10M"))],
        ),
        case(
            "Warning [NQOS0201] (BandwidthProfile games/some)",
            "app=db",
            vec![
                object(
                    "BandwidthProfile",
                    "games/some",
                    &json!({"spec": {
                        "podSelector": {"matchLabels": {"app": "db"}}, "egress": {"rate": "5M"}
                    }}),
                ),
                web("games/a"),
            ],
            vec![profile(), web("games/a")],
        ),
    ]
}

fn of_attachments() -> Vec<Case> {
    let lan = || nad("games/lan", &json!({"type": "macvlan", "master": "eth1"}));
    let permits = |master: &str| {
        let spec = json!({"pluginTypes": ["macvlan"], "masters": [master]});
        attachment_policy("lans", &spec)
    };
    vec![
        case(
            "Error [NQOS0305] (Pod games/a)",
            "metadata.annotations[k8s.v1.cni.cncf.io/networks]: entry 1 (\"lan\"): mac: ",
            vec![selecting("games/a", r#"[{"name": "lan", "mac": "x"}]"#)],
            vec![selecting("games/a", "lan"), lan(), permits("eth1")],
        ),
        case(
            "Error [NQOS0306] (Pod games/a)",
            "no NetworkAttachmentDefinition has the name that it selects: games/wan",
            vec![selecting("games/a", "wan"), lan()],
            vec![selecting("games/a", "lan"), lan()],
        ),
        case(
            "Warning [NQOS0307] (NetworkAttachmentDefinition games/lan)",
            "spec.config: netqos-multinet attaches no pod to it, since no NetworkAttachmentPolicy permits it: \
             plugins[0].master: interface \"eth1\" is not permitted",
            vec![lan(), permits("eth2")],
            vec![lan(), permits("eth1")],
        ),
    ]
}

fn of_nodes() -> Vec<Case> {
    let ten = json!([to("10.0.0.0/8")]);
    let asked = |more: Vec<Value>| {
        let mut all = vec![
            policy("games/one", "web", 5, &ten),
            web("games/a"),
            object("Node", "node1", &json!({})),
        ];
        all.extend(more);
        all
    };
    let right = || asked(vec![report(&in_force("one", 2), &json!([]))]);
    let problem = json!([{
        "kind": "Pod", "namespace": "games", "name": "a", "reason": "EndpointUnreachable",
        "message": "its rules are not in force"
    }]);
    let left = json!([{
        "kind": "Node", "name": "node1", "reason": "AnnotationsElsewhere",
        "message": "Cilium's bandwidth manager limits what pods send"
    }]);
    vec![
        case(
            "Warning [NQOS0405] (Node node1)",
            "AnnotationsElsewhere: Cilium",
            asked(vec![report(&in_force("one", 2), &left)]),
            right(),
        ),
        case(
            "Error [NQOS0401] (Node node1)",
            "such as games/a",
            asked(vec![]),
            right(),
        ),
        case(
            "Warning [NQOS0402] (NetworkQoS games/one)",
            "node node1 has not put generation 2 in force (but generation 1)",
            asked(vec![report(&in_force("one", 1), &json!([]))]),
            right(),
        ),
        case(
            "Info [NQOS0403] (Node node1)",
            "does not exist",
            vec![
                report(&json!([]), &json!([])),
                object("Node", "node2", &json!({})),
            ],
            right(),
        ),
        case(
            "Error [NQOS0404] (Pod games/a)",
            "on node node1: EndpointUnreachable: its rules are not in force",
            asked(vec![report(&in_force("one", 2), &problem)]),
            right(),
        ),
    ]
}

fn holds(case: &Case) {
    let wrong = said(&case.wrong);
    let found = wrong
        .iter()
        .any(|(head, words)| head == case.head && words.contains(case.words));
    assert!(found, "{} … {}: {wrong:#?}", case.head, case.words);
    let right = said(&case.right);
    assert!(
        right.iter().all(|(head, _)| head != case.head),
        "{}: {right:#?}",
        case.head
    );
}

#[test]
fn what_is_wrong_is_said_and_what_is_right_is_not() {
    let cases = [
        of_objects(),
        of_rules(),
        of_pods(),
        of_attachments(),
        of_nodes(),
    ];
    let cases: Vec<Case> = cases.into_iter().flatten().collect();
    cases.iter().for_each(holds);
    // The others have tests of their own.
    let mut tried: BTreeSet<&str> = BTreeSet::from(["NQOS0102", "NQOS0105", "NQOS0207"]);
    tried.extend(
        cases
            .iter()
            .map(|it| &it.head[it.head.find('[').unwrap() + 1..][..8]),
    );
    let all: BTreeSet<&str> = CODES.iter().map(|it| it.code).collect();
    assert_eq!(tried, all);
}

#[test]
fn nothing_is_said_of_objects_that_are_right() {
    let ten = json!([to("10.0.0.0/8")]);
    let all = [
        policy("games/one", "web", 5, &ten),
        web("games/a"),
        object("Node", "node1", &json!({})),
        report(&in_force("one", 2), &json!([])),
    ];
    assert_eq!(said(&all), []);
}

#[test]
fn more_rules_than_an_interface_can_have_are_an_error_of_the_pod() {
    let rules = |number: u16| {
        let rules = (0..number).map(|it| to(&format!("10.{}.{}.0/24", it / 256, it % 256)));
        let rules: Vec<Value> = rules.collect();
        let policies = rules.chunks(20).enumerate();
        let priorities = policies.map(|(index, chunk)| {
            policy(
                &format!("games/p{index:03}"),
                "web",
                (index % 100) as u8,
                &json!(chunk),
            )
        });
        let mut all: Vec<Value> = priorities.collect();
        all.push(web("games/a"));
        all
    };
    let of_pod = |number| {
        let said = said(&rules(number));
        said.iter()
            .any(|(head, _)| head == "Error [NQOS0207] (Pod games/a)")
    };
    assert!(of_pod(1025) && !of_pod(1024));
}

use netqos_cluster::Connect;
use netqos_coexistence::Homes;
use serde_json::{Value, json};

use super::*;

fn options() -> ClusterOptions {
    ClusterOptions {
        node: "node1".to_owned(),
        connect: Connect::default(),
        state: "/nowhere".into(),
        has_rules: false,
        peers: netqos_index::PeerSource::Pods,
        reports: None,
        report_refresh: Duration::from_secs(600),
        homes: Arc::default(),
    }
}

fn read(kind: Kind, name: &str, more: &Value) -> (ObjectName, Read) {
    let name = match name.split_once('/') {
        Some((namespace, name)) => ObjectName::new(namespace, name),
        None => ObjectName::new("", name),
    };
    let mut value = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.name(),
        "metadata": {"name": *name.name, "uid": name.to_string()}
    });
    if !name.namespace.is_empty() {
        value["metadata"]["namespace"] = (*name.namespace).into();
    }
    for (field, said) in more.as_object().unwrap() {
        value[field] = said.clone();
    }
    let read = Read::of(kind, &name, value, &Homes::default());
    (name, read)
}

fn policy(name: &str, dscp: i64) -> (ObjectName, Read) {
    let spec = json!({"priority": 1, "egress": [{"dscp": dscp}]});
    read(Kind::NetworkQoS, name, &json!({"spec": spec}))
}

/// The cluster in the state in which a test has it: everything was listed, and there is nothing.
struct Cluster(Seen);

impl Cluster {
    fn new() -> Self {
        let mut cluster = Self(Seen::new(&options(), BTreeSet::new()));
        for selection in options().selections() {
            let node = read(Kind::Node, "node1", &json!({}));
            let there = (selection.kind == Kind::Node).then_some(node);
            cluster
                .0
                .hear(&selection, Told::All(there.into_iter().collect()));
        }
        assert!(cluster.0.is_known());
        cluster
    }

    /// What becomes of the plan's objects when this is told of policies.
    fn policies(&mut self, told: Told<Read>) -> Vec<String> {
        let changes = self.0.hear(&Selection::all(Kind::NetworkQoS), told);
        let shown = changes.into_iter().map(|change| match change {
            Change::Policy(policy) => format!("{}", policy.name),
            Change::PolicyGone(name) => format!("{name} gone"),
            other => format!("{other:?}"),
        });
        shown.collect()
    }

    fn problems(&self) -> Vec<String> {
        let problems = self.0.batch(Vec::new()).problems;
        problems.iter().map(ToString::to_string).collect()
    }
}

#[test]
fn what_is_told_again_changes_nothing_and_what_is_not_told_any_more_is_gone() {
    let mut cluster = Cluster::new();
    let all = |policies: Vec<_>| Told::All(policies.into_iter().collect());
    let both = || vec![policy("games/a", 1), policy("games/b", 2)];
    assert_eq!(cluster.policies(all(both())), ["games/a", "games/b"]);
    assert_eq!(cluster.policies(all(both())), [""; 0]);
    let changed = vec![policy("games/b", 3), policy("games/c", 4)];
    assert_eq!(
        cluster.policies(all(changed)),
        ["games/a gone", "games/b", "games/c"]
    );
    let (name, read) = policy("games/d", 5);
    assert_eq!(
        cluster.policies(Told::There(name.clone(), read)),
        ["games/d"]
    );
    assert_eq!(cluster.policies(Told::Gone(name.clone())), ["games/d gone"]);
    assert_eq!(cluster.policies(Told::Gone(name)), [""; 0]);
    assert_eq!(cluster.problems(), [""; 0]);
}

#[test]
fn an_object_that_cannot_be_read_is_left_out_and_told_of() {
    let mut cluster = Cluster::new();
    let (name, good) = policy("games/a", 1);
    let (_, bad) = policy("games/a", 64);
    let odd = read(Kind::NetworkQoS, "games/odd", &json!({"spec": "none"}));
    cluster.policies(Told::There(name.clone(), good.clone()));
    assert_eq!(
        cluster.policies(Told::There(name.clone(), bad)),
        ["games/a gone"]
    );
    assert_eq!(cluster.policies(Told::There(odd.0, odd.1)), [""; 0]);
    let problems = cluster.problems();
    assert_eq!(problems.len(), 2, "{problems:?}");
    let expected = "NetworkQoS games/a: Invalid: left out: NetworkQoS games/a: spec.egress[0].dscp";
    assert!(problems[0].starts_with(expected), "{problems:?}");
    assert_eq!(cluster.policies(Told::There(name, good)), ["games/a"]);
    assert_eq!(cluster.problems().len(), 1);
}

#[test]
fn silence_changes_nothing_and_is_one_problem() {
    let mut cluster = Cluster::new();
    let (name, read) = policy("games/a", 1);
    cluster.policies(Told::There(name, read));
    for kind in [Kind::NetworkQoS, Kind::Pod] {
        let silent = Told::Silent("connection refused".to_owned());
        assert_eq!(cluster.0.hear(&Selection::all(kind), silent), []);
    }
    let problems = cluster.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    let expected = "Node node1: ApiUnavailable: the API server does not tell of pods, networkqoses: \
                    connection refused; what was known before stays in force";
    assert!(problems[0].starts_with(expected), "{problems:?}");
    let (name, read) = policy("games/a", 1);
    cluster.policies(Told::All([(name, read)].into()));
    cluster
        .0
        .hear(&Selection::all(Kind::Pod), Told::All(BTreeMap::new()));
    assert_eq!(cluster.problems(), [""; 0]);
}

#[test]
fn before_everything_was_told_nothing_counts() {
    let mut seen = Seen::new(&options(), BTreeSet::new());
    let mut selections = options().selections();
    selections.sort_by_key(|it| it.kind == Kind::Node);
    let (node, others) = selections.split_last().unwrap();
    for selection in others {
        assert!(!seen.is_known());
        assert!(seen.waiting().contains(selection.kind.plural()));
        seen.hear(selection, Told::All(BTreeMap::new()));
    }
    assert_eq!(seen.waiting(), "nodes were not listed yet");
    seen.hear(node, Told::Silent("no route".to_owned()));
    assert_eq!(seen.waiting(), "nodes cannot be listed: no route");
    // Under a name that is none, it would have no pods.
    seen.hear(node, Told::All(BTreeMap::new()));
    assert!(!seen.is_known());
    assert!(
        seen.waiting().contains("no Node node1"),
        "{}",
        seen.waiting()
    );
    seen.hear(
        node,
        Told::All([read(Kind::Node, "node1", &json!({}))].into()),
    );
    assert!(seen.is_known());
}

#[test]
fn what_was_written_down_counts_until_the_server_tells() {
    let folder = tempfile::tempdir().unwrap();
    let mut saved = super::super::saved::Saved::new(folder.path(), Arc::default());
    let mut seen = Seen::new(&options(), BTreeSet::new());
    let (found, changes) = seen.remember(|kind| saved.read(kind));
    assert!(!found && changes.is_empty(), "nothing was written down");

    let mut cluster = Cluster::new();
    let both = [policy("games/a", 1), policy("games/b", 2)];
    cluster.policies(Told::All(both.into()));
    saved.write(|kind| cluster.0.texts(kind)).unwrap();

    let (found, changes) = seen.remember(|kind| saved.read(kind));
    assert!(found && seen.is_known() && !seen.is_told());
    assert_eq!(changes.len(), 2, "{changes:?}");
    let problems = seen.batch(Vec::new()).problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].message.contains("written down 20"),
        "{problems:?}"
    );

    // The server knows better.
    let told = Told::All([policy("games/b", 3)].into());
    let mut cluster = Cluster(seen);
    assert_eq!(cluster.policies(told), ["games/a gone", "games/b"]);
}

#[test]
fn a_kind_of_which_there_were_objects_is_not_believed_to_be_unknown_at_once() {
    let mut cluster = Cluster::new();
    cluster.policies(Told::All([policy("games/a", 1)].into()));
    assert_eq!(cluster.policies(Told::Unknown), [""; 0]);
    let problems = cluster.problems();
    assert!(problems[0].contains("networkqoses: 404"), "{problems:?}");
    // It goes on to say so.
    cluster.0.disbelief = Duration::ZERO;
    assert_eq!(cluster.policies(Told::Unknown), ["games/a gone"]);
    let problems = cluster.problems();
    let expected = "Node node1: DefinitionMissing: the API server does not know networkqoses: ";
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].starts_with(expected), "{problems:?}");
    // Until it is defined.
    cluster.policies(Told::All([policy("games/a", 1)].into()));
    assert_eq!(cluster.problems(), [""; 0]);

    // Nor by who has just started, and has it from disk that there were some.
    let mut seen = Seen::new(&options(), [Kind::NetworkQoS].into());
    let policies = Selection::all(Kind::NetworkQoS);
    seen.hear(&policies, Told::Unknown);
    assert!(!seen.watched[&policies].spoke);
    seen.hear(&policies, Told::All(BTreeMap::new()));
    seen.hear(&policies, Told::Unknown);
    assert!(seen.watched[&policies].spoke && seen.watched[&policies].silent.is_none());
}

use netqos_cluster::Connect;
use netqos_coexistence::Homes;
use serde_json::{Value, json};

use super::*;

mod nads;

fn options() -> ClusterOptions {
    ClusterOptions {
        node: "node1".to_owned(),
        connect: Connect::default(),
        state: "/nowhere".into(),
        has_rules: false,
        controller: "netqos-system".into(),
        reports: None,
        statuses: None,
        report_refresh: Duration::from_secs(600),
        homes: Arc::default(),
        networks: crate::NetworkCatalog::new("node1"),
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

/// Nothing yet, and the policies of all namespaces are watched, too.
fn seen(options: &ClusterOptions, expected: BTreeSet<Kind>) -> Seen {
    let mut seen = Seen::new(options, expected);
    seen.begin(Selection::all(Kind::NetworkQoS));
    seen
}

fn pods() -> Selection {
    Selection::all(Kind::Pod).with_field("spec.nodeName", "node1")
}

/// The cluster in the state in which a test has it: everything was listed, and there is nothing.
struct Cluster(Seen);

impl Cluster {
    fn new() -> Self {
        let mut cluster = Self(seen(&options(), BTreeSet::new()));
        let watched: Vec<Selection> = cluster.0.watched.keys().cloned().collect();
        for selection in watched {
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
fn an_object_that_cannot_be_read_is_as_it_was_and_told_of() {
    let mut cluster = Cluster::new();
    let (name, good) = policy("games/a", 1);
    let (_, bad) = policy("games/a", 64);
    let odd = read(Kind::NetworkQoS, "games/odd", &json!({"spec": "none"}));
    cluster.policies(Told::There(name.clone(), good.clone()));
    assert_eq!(
        cluster.policies(Told::There(name.clone(), bad.clone())),
        [""; 0]
    );
    assert_eq!(cluster.policies(Told::There(odd.0, odd.1)), [""; 0]);
    let problems = cluster.problems();
    assert_eq!(problems.len(), 2, "{problems:?}");
    let expected = "NetworkQoS games/a: Invalid: NetworkQoS games/a is in force as it was before, since it \
                    cannot be read: spec.egress[0].dscp";
    assert!(problems[0].starts_with(expected), "{problems:?}");
    assert!(
        problems[1].contains("left out: NetworkQoS games/odd"),
        "{problems:?}"
    );
    // What is written down is what counts; what cannot be read was never anything else.
    let texts = cluster.0.texts(Kind::NetworkQoS);
    let texts: Vec<&str> = texts.into_iter().map(RawValue::get).collect();
    assert!(
        texts[0].contains("\"dscp\":1}") && texts[1].contains("none"),
        "{texts:?}"
    );
    // Also where all are listed anew.
    let all = [(name.clone(), bad.clone()), policy("games/b", 2)];
    assert_eq!(cluster.policies(Told::All(all.into())), ["games/b"]);
    assert_eq!(cluster.policies(Told::There(name.clone(), good)), [""; 0]);
    assert_eq!(cluster.problems(), [""; 0]);
    cluster.policies(Told::There(name.clone(), bad.clone()));
    let (_, better) = policy("games/a", 3);
    assert_eq!(
        cluster.policies(Told::There(name.clone(), better)),
        ["games/a"]
    );
    // Gone is gone, and another one of its name is another one.
    cluster.policies(Told::There(name.clone(), bad.clone()));
    assert_eq!(cluster.policies(Told::Gone(name.clone())), ["games/a gone"]);
    cluster.policies(Told::There(name.clone(), policy("games/a", 1).1));
    let metadata = json!({"name": "a", "namespace": "games", "uid": "of another"});
    let another = json!({"metadata": metadata, "spec": {"priority": 1, "egress": [{"dscp": 64}]}});
    let (_, another) = read(Kind::NetworkQoS, "games/a", &another);
    assert_eq!(
        cluster.policies(Told::There(name, another)),
        ["games/a gone"]
    );
    assert!(
        cluster.problems()[0].contains("left out"),
        "{:?}",
        cluster.problems()
    );
}

/// A quota that somebody has spoiled still bounds, and a profile that somebody has still limits.
#[test]
fn what_bounds_others_stays_when_it_cannot_be_read_and_is_told_of_by_its_kind() {
    let mut cluster = Cluster::new();
    for (kind, name, good, bad) in [
        (
            Kind::NetworkQoSQuota,
            "tenants",
            json!({"spec": {"maxRules": 1}}),
            json!({"spec": {"maxRules": "one"}}),
        ),
        (
            Kind::BandwidthProfile,
            "games/slow",
            json!({"spec": {"egress": {"rate": "1M"}}}),
            json!({"spec": {"egress": {"rate": "slow"}}}),
        ),
    ] {
        let selection = Selection::all(kind);
        let (name, good) = read(kind, name, &good);
        let (_, bad) = read(kind, name.to_string().trim_start_matches('/'), &bad);
        let changes = cluster.0.hear(&selection, Told::There(name.clone(), good));
        assert_eq!(changes.len(), 1, "{changes:?}");
        let changes = cluster.0.hear(&selection, Told::There(name.clone(), bad));
        assert_eq!(changes, []);
        let problems = cluster.problems();
        let told = problems.iter().filter(|it| it.starts_with(kind.name()));
        assert!(
            told.clone().count() == 1 && told.clone().all(|it| it.contains("spec.")),
            "{problems:?}"
        );
        assert_eq!(cluster.0.hear(&selection, Told::Gone(name)).len(), 1);
    }
    assert_eq!(cluster.problems(), [""; 0]);
}

/// It was spoiled while nobody looked, or before this process began.
#[test]
fn what_cannot_be_read_at_the_start_is_as_it_was_written_down() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new();
    cluster.policies(Told::All([policy("games/a", 1)].into()));
    let mut saved = Saved::new(folder.path(), "node1", Arc::default());
    saved.write(|kind| cluster.0.texts(kind)).unwrap();

    let options = ClusterOptions {
        state: folder.path().to_owned(),
        ..options()
    };
    let mut cluster = Cluster(seen(&options, BTreeSet::new()));
    let told = || [policy("games/a", 64), policy("games/new", 64)];
    assert_eq!(cluster.policies(Told::All(told().into())), ["games/a"]);
    let of_policies = cluster.problems().into_iter();
    let of_policies = of_policies.filter(|it| it.starts_with("NetworkQoS"));
    let of_policies: Vec<String> = of_policies.collect();
    assert!(
        of_policies[0].contains("as it was before"),
        "{of_policies:?}"
    );
    assert!(of_policies[1].contains("left out"), "{of_policies:?}");
    assert_eq!(cluster.policies(Told::All(told().into())), [""; 0]);
    let (name, good) = policy("games/a", 2);
    assert_eq!(cluster.policies(Told::There(name, good)), ["games/a"]);
}

#[test]
fn silence_changes_nothing_and_is_one_problem() {
    let mut cluster = Cluster::new();
    let (name, read) = policy("games/a", 1);
    cluster.policies(Told::There(name, read));
    for selection in [Selection::all(Kind::NetworkQoS), pods()] {
        let silent = Told::Silent("connection refused".to_owned());
        assert_eq!(cluster.0.hear(&selection, silent), []);
    }
    let problems = cluster.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    let expected = "Node node1: ApiUnavailable: the API server does not tell of pods, networkqoses: \
                    connection refused; what was known before stays in force";
    assert!(problems[0].starts_with(expected), "{problems:?}");
    let (name, read) = policy("games/a", 1);
    cluster.policies(Told::All([(name, read)].into()));
    cluster.0.hear(&pods(), Told::All(BTreeMap::new()));
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
    let mut saved = Saved::new(folder.path(), "node1", Arc::default());
    let mut seen = seen(&options(), BTreeSet::new());
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
    let mut seen = seen(&options(), [Kind::NetworkQoS].into());
    let policies = Selection::all(Kind::NetworkQoS);
    seen.hear(&policies, Told::Unknown);
    assert!(!seen.watched[&policies].spoke);
    seen.hear(&policies, Told::All(BTreeMap::new()));
    seen.hear(&policies, Told::Unknown);
    assert!(seen.watched[&policies].spoke && seen.watched[&policies].silent.is_none());
}

/// A machine by another name has other pods: what was theirs is none of its.
#[test]
fn what_was_written_down_for_a_node_of_another_name_is_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new();
    cluster.policies(Told::All([policy("games/a", 1)].into()));
    let mut saved = Saved::new(folder.path(), "node1", Arc::default());
    saved.write(|kind| cluster.0.texts(kind)).unwrap();
    assert!(saved.kinds().contains(&Kind::NetworkQoS));
    let other = Saved::new(folder.path(), "node2", Arc::default());
    assert_eq!(other.kinds(), BTreeSet::new());
    assert!(other.read(Kind::NetworkQoS).is_none());
    // As an older agent writes it.
    let path = folder.path().join("objects/networkqoses.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let stamped = "\"node\":\"node1\"";
    assert!(text.contains(stamped), "{text}");
    std::fs::write(&path, text.replace(stamped, "\"by\":\"another\"")).unwrap();
    assert!(other.read(Kind::NetworkQoS).is_some());
}

/// As while a watch of all namespaces takes the place of one of a namespace.
#[test]
fn of_two_watches_the_one_that_is_ahead_counts() {
    let at = |revision: u64, dscp: i64| {
        let spec = json!({"priority": 1, "egress": [{"dscp": dscp}]});
        let metadata = json!({
            "name": "a", "namespace": "games", "uid": "1", "resourceVersion": revision.to_string()
        });
        let object = json!({"metadata": metadata, "spec": spec});
        read(Kind::NetworkQoS, "games/a", &object)
    };
    let dscps = |changes: Vec<Change>| -> Vec<u8> {
        let policies = changes.into_iter().map(|change| match change {
            Change::Policy(policy) => policy.rules[0].dscp.unwrap().get(),
            Change::PolicyGone(_) => 0,
            other => panic!("{other:?}"),
        });
        policies.collect()
    };
    let mut seen = Cluster::new().0;
    let all = Selection::all(Kind::NetworkQoS);
    let one = all.clone().in_namespace("games");
    let (name, first) = at(9, 9);
    assert_eq!(
        dscps(seen.hear(&all, Told::There(name.clone(), first))),
        [9]
    );
    seen.begin(one.clone());
    let listed = Told::All([at(30, 30)].into());
    assert_eq!(dscps(seen.hear(&one, listed)), [30]);
    // What the other one has to tell is old by now.
    let (_, late) = at(20, 20);
    assert_eq!(
        dscps(seen.hear(&all, Told::There(name.clone(), late))),
        [0; 0]
    );
    let text = seen.stands(Kind::NetworkQoS, &name).text.unwrap();
    assert!(text.get().contains("\"30\""), "{text}");
    // It was deleted, and made anew since.
    assert_eq!(dscps(seen.hear(&all, Told::Gone(name.clone()))), [0; 0]);
    assert_eq!(dscps(seen.end(&all)), [0; 0]);
    assert_eq!(seen.texts(Kind::NetworkQoS).len(), 1);
    // A server that was restored counts from less.
    let restored = Told::All([at(5, 5)].into());
    assert_eq!(dscps(seen.hear(&one, restored)), [5]);
    assert_eq!(dscps(seen.hear(&one, Told::Gone(name))), [0]);
}

#[test]
fn a_watch_takes_the_place_of_another_when_it_has_caught_up_with_that() {
    let mut seen = Cluster::new().0;
    let all = Selection::all(Kind::NetworkQoS);
    let one = all.clone().in_namespace("games");
    seen.hear(&all, Told::All([policy("games/a", 1)].into()));
    seen.begin(one.clone());
    // It is listed by a server that does not know of the object yet.
    seen.hear(&one, Told::All(BTreeMap::new()));
    let now = Instant::now();
    assert!(!seen.may_replace(&one, now));
    let due = seen.next_may_replace(now).unwrap();
    assert!(due > now && due <= now + CATCHES_UP);
    let (name, read) = policy("games/a", 1);
    seen.hear(&one, Told::There(name, read));
    assert!(seen.may_replace(&one, now + CATCHES_UP));
    // Not while it is silent: it may never have been told of what the other one knows. Nor at once when it
    // is answered again, or has to be listed again, maybe by a server that is behind.
    let soon = Instant::now() + 2 * CATCHES_UP;
    seen.hear(&one, Told::Silent("connection refused".to_owned()));
    assert!(!seen.may_replace(&one, soon));
    let others = seen.watched.keys().filter(|it| **it != one).cloned();
    for other in others.collect::<Vec<_>>() {
        seen.hear(&other, Told::Silent("connection refused".to_owned()));
    }
    assert_eq!(seen.next_may_replace(now), None);
    let again: [fn() -> Told<Read>; 2] = [
        || Told::Answers,
        || Told::All([policy("games/a", 1)].into()),
    ];
    for again in again {
        let before = Instant::now();
        seen.hear(&one, again());
        let due = seen.next_may_replace(before).unwrap();
        assert!(due >= before + CATCHES_UP && due <= Instant::now() + CATCHES_UP);
        assert!(!seen.may_replace(&one, before) && seen.may_replace(&one, due));
    }
    assert!(seen.end(&all).is_empty());
    assert_eq!(seen.known(Kind::NetworkQoS).count(), 1);
}

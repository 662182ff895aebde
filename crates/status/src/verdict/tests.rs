use super::*;
use netqos_core::PolicyVersion;
use netqos_core::quota::Excess;

fn version(uid: Option<&str>, generation: i64) -> PolicyVersion {
    PolicyVersion {
        uid: uid.map(Into::into),
        generation,
    }
}

/// What is known of `games/web`, generation 3, with pods on two nodes.
pub(crate) struct Known {
    pub(crate) subjects: Subjects,
    pub(crate) reports: BTreeMap<Arc<str>, NodeReport>,
    pub(crate) invalid: Option<&'static str>,
    /// The node whose agent is not ready, and the pods that came to it since.
    pub(crate) away: Option<(&'static str, BTreeSet<ObjectName>)>,
    pub(crate) leaves: Option<&'static str>,
}

impl Known {
    pub(crate) fn new() -> Self {
        Self {
            subjects: Subjects {
                pods: 5,
                nodes: ["node1".into(), "node2".into()].into(),
                ..Subjects::default()
            },
            reports: BTreeMap::new(),
            invalid: None,
            away: None,
            leaves: None,
        }
    }

    /// A node says that it has put this generation in force, and what is not as it should be.
    pub(crate) fn said(mut self, node: &str, generation: i64, problems: &[[&str; 3]]) -> Self {
        let problem = |[kind, name, reason]: &[&str; 3]| ReportedProblem {
            kind: (*kind).to_owned(),
            object: ObjectName::new("games", name),
            reason: (*reason).to_owned(),
            message: "do this".to_owned(),
        };
        let report = NodeReport {
            node: node.into(),
            policies: [(ObjectName::new("games", "web"), version(None, generation))].into(),
            problems: problems.iter().map(problem).collect(),
            ..NodeReport::default()
        };
        self.reports.insert(node.into(), report);
        self
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let name = ObjectName::new("games", "web");
        Verdict::of(&Facts {
            name: &name,
            uid: "new",
            generation: 3,
            invalid: self.invalid,
            rules: Some(2),
            subjects: &self.subjects,
            reports: &self.reports,
            agents: &|node| match &self.away {
                _ if self.leaves == Some(node) => Agent::Leaves,
                Some((away, late)) if *away == node => Agent::NotReady(late),
                _ => Agent::Works,
            },
            selects: &|pod| *pod.name == *"mine",
        })
    }
}

/// Whether it is ready, why, and in what words.
fn ready(known: &Known) -> (bool, String, String) {
    let ready = known.verdict().ready();
    (ready.holds, ready.reason, ready.message)
}

fn is(holds: bool, reason: &str, message: &str) -> (bool, String, String) {
    (holds, reason.to_owned(), message.to_owned())
}

#[test]
fn it_is_ready_when_all_nodes_of_its_pods_have_put_this_generation_in_force() {
    let known = Known::new();
    assert_eq!(
        ready(&known),
        is(
            false,
            "Pending",
            "in force on 0 of 2 nodes; node1 has said nothing yet (also node2): does netqos-agent \
             run there?"
        )
    );
    let known = known.said("node1", 3, &[]).said("node2", 2, &[]);
    assert_eq!(
        ready(&known),
        is(
            false,
            "Pending",
            "in force on 1 of 2 nodes; node2 has not put generation 3 in force yet"
        )
    );
    assert_eq!(known.verdict().nodes(), "1/2");
    let known = known.said("node2", 3, &[]).said("node9", 1, &[]);
    assert_eq!(ready(&known), is(true, "Ready", "in force on 2 of 2 nodes"));
    assert_eq!(known.verdict().text(), "NetworkQoS Destinations applied");
    // A later one that this has not heard of yet.
    let known = known.said("node2", 4, &[]);
    assert!(known.verdict().ready().holds);
}

#[test]
fn a_problem_of_it_or_of_its_pods_keeps_it_from_being_ready_and_no_others() {
    let with = |problem: [&str; 3]| {
        let known = Known::new().said("node1", 3, &[]);
        ready(&known.said("node2", 3, &[problem]))
    };
    let fails = |reason: &str, about: &str| {
        let message = format!("in force on 1 of 2 nodes; node2: {about}do this");
        (false, reason.to_owned(), message)
    };
    assert_eq!(
        with(["NetworkQoS", "web", "UpdateFailed"]),
        fails("UpdateFailed", "")
    );
    assert_eq!(
        with(["Pod", "mine", "KernelFeatureMissing"]),
        fails("KernelFeatureMissing", "Pod games/mine: ")
    );
    // A reason that only a newer agent knows.
    assert_eq!(
        with(["Pod", "mine", "New"]),
        fails("New", "Pod games/mine: ")
    );
    for other in [
        ["NetworkQoS", "other", "UpdateFailed"],
        ["Pod", "other", "KernelFeatureMissing"],
        ["Pod", "mine", "InvalidBandwidth"],
        ["Pod", "mine", "IngressBypassed"],
        ["Node", "web", "IngressNotVerified"],
        ["NetworkQoS", "web", "Conflict"],
        ["NetworkQoS", "web", "BurstRaised"],
        ["NetworkQoS", "web", "KernelFeatureMissing"],
        ["Node", "web", "ApiUnavailable"],
        ["Node", "web", "KernelFeatureMissing"],
    ] {
        assert_eq!(with(other), is(true, "Ready", "in force on 2 of 2 nodes"));
    }
}

#[test]
fn condition_of_many_nodes_names_the_first() {
    let mut known = Known::new();
    let names = (1..=8).map(|number| format!("node{number}"));
    known.subjects.nodes = names.map(Arc::from).collect();
    let others = "node3, node4, node5, node6, and 2 more";
    let known = known.said("node1", 3, &[]);
    let message = format!(
        "in force on 1 of 8 nodes; node2 has said nothing yet (also {others}): does netqos-agent run there?"
    );
    assert_eq!(ready(&known), is(false, "Pending", &message));
    let problem = [["Pod", "mine", "New"]];
    let fails = |known: Known, node| known.said(&format!("node{node}"), 3, &problem);
    let known = (2..=8).fold(known, fails);
    let message =
        format!("in force on 1 of 8 nodes; node2: Pod games/mine: do this (also {others})");
    assert_eq!(ready(&known), is(false, "New", &message));
}

#[test]
fn what_a_report_has_no_room_for_is_not_taken_for_nothing() {
    let mut known = Known::new().said("node1", 3, &[]).said("node2", 3, &[]);
    assert!(known.verdict().ready().holds);
    known.reports.get_mut("node2").unwrap().more_problems = 7;
    let (holds, reason, message) = ready(&known);
    assert_eq!((holds, &*reason), (false, "TooManyProblems"));
    assert!(message.contains("node2: its report names"), "{message}");
}

#[test]
fn what_takes_nothing_from_it_is_remarked() {
    let problems = [
        ["NetworkQoS", "web", "Conflict"],
        ["NetworkQoS", "other", "BurstRaised"],
    ];
    let known = Known::new().said("node1", 3, &problems);
    let remarks = known.verdict().remarks;
    let remarks: Vec<_> = remarks.iter().map(|(it, f)| (&**it, &*f.message)).collect();
    assert_eq!(remarks, [("Conflict", "node1: do this")]);
}

#[test]
fn what_is_in_force_by_lesser_means_and_beside_whom_is_remarked_with_its_nodes() {
    let remarks = |one: &[[&str; 3]], other: &[[&str; 3]]| {
        let known = Known::new().said("node1", 3, one).said("node2", 3, other);
        let verdict = known.verdict();
        assert!(verdict.ready().holds, "{verdict:?}");
        let remarks = verdict.remarks.into_iter();
        let remarks = remarks.map(|(type_, it)| [type_, it.reason, it.message]);
        remarks.collect::<Vec<_>>()
    };
    let lacks = ["NetworkQoS", "web", "KernelFeatureMissing"];
    let of_node = ["Node", "node", "KernelFeatureMissing"];
    let beside = ["Node", "node", "AnotherAtWork"];
    let left = ["Node", "node", "AnnotationsElsewhere"];
    let is = |type_: &str, reason: &str, message: &str| {
        vec![[type_, reason, message].map(str::to_owned)]
    };
    assert_eq!(
        remarks(&[], &[lacks]),
        is(
            "Degraded",
            "KernelFeatureMissing",
            "on 1 of 2 nodes; node2: do this"
        )
    );
    assert_eq!(
        remarks(&[of_node], &[lacks, of_node]),
        is(
            "Degraded",
            "KernelFeatureMissing",
            "on 2 of 2 nodes; node1: do this (also node2)"
        )
    );
    assert_eq!(
        remarks(&[left, beside], &[beside]),
        is(
            "AnotherAtWork",
            "AnnotationsElsewhere",
            "on 2 of 2 nodes; node1: do this; do this (also node2)"
        )
    );
    // Of another policy, or of a pod.
    let other = ["NetworkQoS", "other", "KernelFeatureMissing"];
    assert_eq!(
        remarks(&[other], &[["Pod", "other", "KernelFeatureMissing"]]).len(),
        0
    );
}

#[test]
fn where_the_kernel_can_put_no_rule_in_force_none_is_pending() {
    let lacks = [["Node", "node2", "KernelFeatureMissing"]];
    let mut known = Known::new().said("node1", 3, &[]).said("node2", 3, &lacks);
    known.reports.get_mut("node2").unwrap().policies.clear();
    let (holds, reason, message) = ready(&known);
    assert_eq!((holds, &*reason), (false, "KernelFeatureMissing"));
    assert!(
        message.starts_with("in force on 1 of 2 nodes; node2: Node"),
        "{message}"
    );
    assert_eq!(known.verdict().remarks.len(), 0);
}

#[test]
fn without_pods_there_is_nothing_to_wait_for() {
    let mut known = Known::new();
    known.subjects = Subjects::default();
    let verdict = known.verdict();
    assert_eq!(verdict.programmed.reason, "NoPods");
    assert!(verdict.ready().holds);
}

#[test]
fn what_cannot_be_accepted_says_which_field() {
    let mut known = Known::new().said("node1", 3, &[]).said("node2", 3, &[]);
    known.invalid = Some("spec.priority: 200 is more than 100");
    let verdict = known.verdict();
    assert_eq!(
        ready(&known),
        is(false, "Invalid", "spec.priority: 200 is more than 100")
    );
    assert_eq!(verdict.programmed.reason, "NotAccepted");
    assert_eq!(
        verdict.text(),
        "NetworkQoS Destinations not correctly applied: spec.priority: 200 is more than 100"
    );

    let long: &'static str = format!("spec.egress[0]: {}", "wrong ".repeat(100)).leak();
    known.invalid = Some(long);
    let text = known.verdict().text();
    assert_eq!(text.chars().count(), 120, "{text}");
    assert!(text.contains(": spec.egress[0]: wrong ") && text.ends_with('…'));
    assert_eq!(ready(&known), is(false, "Invalid", long));

    known.invalid = None;
    known.subjects.excesses = vec![Excess {
        field: "spec.priority".to_owned(),
        quota: "tenants".into(),
        message: "90 is not between 0 and 50".to_owned(),
    }];
    let (holds, reason, message) = ready(&known);
    assert_eq!((holds, &*reason), (false, "QuotaExceeded"));
    assert!(message.starts_with("spec.priority: 90"), "{message}");

    known.subjects.excesses.clear();
    known.subjects.missing = vec![NetworkRef::Attachment(ObjectName::new("games", "blue"))];
    assert_eq!(
        ready(&known),
        is(
            false,
            "NetworkNotFound",
            "there is no network definition games/blue; it is not in force there"
        )
    );
}

/// It was deleted and made anew, with as many changes.
#[test]
fn the_report_on_one_of_the_same_name_before_it_is_none_on_it() {
    let mut known = Known::new().said("node1", 3, &[]).said("node2", 3, &[]);
    let web = ObjectName::new("games", "web");
    let mut says = |uid: Option<&str>, generation: i64| {
        let report = known.reports.get_mut("node2").unwrap();
        report
            .policies
            .insert(web.clone(), version(uid, generation));
        ready(&known).1
    };
    assert_eq!(says(Some("old"), 3), "Pending");
    assert_eq!(says(Some("old"), 30), "Pending");
    assert_eq!(says(Some("new"), 2), "Pending");
    assert_eq!(says(Some("new"), 3), "Ready");
    // An agent that does not know uids yet.
    assert_eq!(says(None, 3), "Ready");
}

/// What is in force outlives the agent.
#[test]
fn where_the_agent_is_not_ready_what_is_new_is_not_in_force_and_the_rest_is() {
    let none = BTreeSet::new;
    let mut known = Known::new().said("node1", 3, &[]).said("node2", 3, &[]);
    known.away = Some(("node2", none()));
    assert_eq!(ready(&known), is(true, "Ready", "in force on 2 of 2 nodes"));
    // Neither a pod that it does not select, nor one of another namespace.
    let other = ["games/other", "else/mine"].map(|name| {
        let (namespace, name) = name.split_once('/').unwrap();
        ObjectName::new(namespace, name)
    });
    known.away = Some(("node2", other.clone().into()));
    assert!(ready(&known).0);
    let mine = ObjectName::new("games", "mine");
    known.away = Some(("node2", other.into_iter().chain([mine]).collect()));
    let (_, reason, message) = ready(&known);
    assert_eq!(reason, "AgentNotReady");
    let words =
        "in force on 1 of 2 nodes; node2: its agent is not ready, and has not seen Pod games/mine,";
    assert!(message.starts_with(words), "{message}");
    let text = known.verdict().text();
    assert!(
        text.starts_with("NetworkQoS Destinations being applied"),
        "{text}"
    );
    // What was wrong before is.
    let failed = [["NetworkQoS", "web", "UpdateFailed"]];
    let mut failing = Known::new().said("node1", 3, &[]).said("node2", 3, &failed);
    failing.away = known.away.clone();
    assert_eq!(ready(&failing).1, "UpdateFailed");
    // Of a generation that it has not put in force nothing is.
    let mut known = Known::new().said("node1", 3, &[]).said("node2", 2, &[]);
    known.away = Some(("node2", none()));
    let (_, reason, message) = ready(&known);
    assert_eq!(reason, "AgentNotReady");
    assert!(message.contains("generation 3"), "{message}");
}

#[test]
fn on_a_node_that_netqos_leaves_nothing_is_in_force_whatever_was_said() {
    let mut known = Known::new().said("node1", 3, &[]).said("node2", 3, &[]);
    known.leaves = Some("node1");
    let (holds, reason, message) = ready(&known);
    assert_eq!((holds, &*reason), (false, "Leaving"));
    assert!(
        message.starts_with("in force on 1 of 2 nodes; node1: netqos leaves"),
        "{message}"
    );
}

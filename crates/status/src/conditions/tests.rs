use k8s_openapi::jiff::Timestamp;

use super::*;
use crate::verdict::tests::Known;

fn at(second: i64) -> Time {
    Time(Timestamp::from_second(second).unwrap())
}

fn find<'s>(status: &'s NetworkQosStatus, type_: &str) -> &'s Condition {
    let mut conditions = status.conditions.as_ref().unwrap().iter();
    conditions.find(|it| it.type_ == type_).unwrap()
}

#[test]
fn a_condition_says_since_when_it_holds_and_of_which_generation() {
    let pending = Known::new().said("node1", 3, &[]);
    let first = status(&pending.verdict(), None, &at(10));
    assert_eq!(find(&first, "Ready").last_transition_time, at(10));
    assert_eq!(find(&first, "Ready").observed_generation, Some(3));
    assert_eq!(first.nodes.as_deref(), Some("1/2"));

    let done = pending.said("node2", 3, &[]);
    let second = status(&done.verdict(), Some(&first), &at(20));
    assert_eq!(find(&second, "Ready").last_transition_time, at(20));
    assert_eq!(find(&second, "Accepted").last_transition_time, at(10));
    assert_eq!(find(&second, "Ready").status, "True");
}

#[test]
fn what_only_counts_is_told_apart_from_what_somebody_waits_for() {
    let mut known = Known::new().said("node1", 3, &[]).said("node2", 3, &[]);
    let shall = status(&known.verdict(), None, &at(10));
    assert_eq!(difference(None, &shall), Difference::Matter);
    let mut is = status(&known.verdict(), None, &at(99));
    assert_eq!(difference(Some(&is), &shall), Difference::None);
    // Somebody else's.
    let mut other = find(&is, "Ready").clone();
    other.type_ = "Seen".to_owned();
    is.conditions.as_mut().unwrap().insert(0, other);
    assert_eq!(difference(Some(&is), &shall), Difference::None);

    known.subjects.pods = 6;
    let more = status(&known.verdict(), None, &at(10));
    assert_eq!(difference(Some(&is), &more), Difference::Counts);
    known.subjects.nodes = ["node1".into()].into();
    let fewer = status(&known.verdict(), None, &at(10));
    assert_eq!(difference(Some(&is), &fewer), Difference::Counts);

    let known = known.said("node1", 2, &[]);
    let pending = status(&known.verdict(), None, &at(10));
    assert_eq!(difference(Some(&is), &pending), Difference::Matter);
    // One that is not ours any more goes.
    let conflict = [["NetworkQoS", "web", "Conflict"]];
    let known = known.said("node1", 3, &conflict);
    let conflict = status(&known.verdict(), None, &at(10));
    assert_eq!(difference(Some(&conflict), &fewer), Difference::Matter);
}

/// Who is in conflict now is another one than before.
#[test]
fn a_remark_in_other_words_is_another_one() {
    let conflict = [["NetworkQoS", "web", "Conflict"]];
    let known = Known::new()
        .said("node1", 3, &[])
        .said("node2", 3, &conflict);
    let shall = status(&known.verdict(), None, &at(10));
    let remark = remarks(&shall).next().unwrap();
    assert_eq!((remark.type_, remark.which), ("Conflict", "node2: do this"));
    assert_eq!(difference(Some(&shall), &shall), Difference::None);
    let mut is = shall.clone();
    let conditions = is.conditions.as_mut().unwrap();
    let told = conditions.iter_mut().find(|it| it.type_ == "Conflict");
    told.unwrap().message = "node2: do that".to_owned();
    assert_eq!(difference(Some(&is), &shall), Difference::Matter);
}

/// That it is so is what somebody waits for, and on how many nodes is not.
#[test]
fn a_remark_of_more_nodes_is_the_same_one() {
    let lacks = [["NetworkQoS", "web", "KernelFeatureMissing"]];
    let beside = [lacks[0], ["Node", "node2", "AnotherAtWork"]];
    let one = Known::new().said("node1", 3, &[]).said("node2", 3, &lacks);
    let one = status(&one.verdict(), None, &at(10));
    let both = Known::new()
        .said("node1", 3, &lacks)
        .said("node2", 3, &lacks);
    let both = status(&both.verdict(), Some(&one), &at(20));
    assert_eq!(find(&both, "Degraded").last_transition_time, at(10));
    assert_eq!(difference(Some(&one), &both), Difference::Counts);
    let which = |status| remarks(status).map(|it| (it.type_, it.which)).next();
    assert_eq!(which(&both), Some(("Degraded", "KernelFeatureMissing")));
    let with = Known::new()
        .said("node1", 3, &lacks)
        .said("node2", 3, &beside);
    let with = status(&with.verdict(), Some(&both), &at(30));
    assert_eq!(difference(Some(&both), &with), Difference::Matter);
    assert_eq!(remarks(&with).count(), 1, "each node tells of it");
    let none = Known::new().said("node1", 3, &[]).said("node2", 3, &[]);
    let none = status(&none.verdict(), Some(&both), &at(40));
    assert_eq!(difference(Some(&both), &none), Difference::Matter);
}

#[test]
fn how_many_rules_it_has_is_a_count() {
    let known = Known::new().said("node1", 3, &[]).said("node2", 3, &[]);
    let shall = status(&known.verdict(), None, &at(10));
    assert_eq!(shall.rules, Some(2));
    let is = NetworkQosStatus {
        rules: Some(1),
        ..shall.clone()
    };
    assert_eq!(difference(Some(&is), &shall), Difference::Counts);
}

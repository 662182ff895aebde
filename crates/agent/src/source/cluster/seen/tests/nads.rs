//! NADs that cannot be read: pods are not attached by what they said before.

use std::collections::BTreeSet;
use std::sync::Arc;

use netqos_api::multinet::{About, Answer, Message, NadName, PROTOCOL, PodName};
use netqos_cluster::{Kind, Selection, Told};
use netqos_core::{ObjectName, Problem};
use serde_json::json;

use super::super::super::saved::Saved;
use super::super::{ClusterOptions, Read, Seen};
use super::{options, read};

fn nad(config: &str) -> Told<Read> {
    let spec = json!({"spec": {"config": config}});
    let (name, read) = read(Kind::NetworkAttachmentDefinition, "games/lan", &spec);
    Told::There(name, read)
}

fn answer_of(options: &ClusterOptions) -> Answer {
    options.networks.answer(&Message {
        version: PROTOCOL,
        pod: PodName {
            namespace: "games".to_owned(),
            name: "a".to_owned(),
            uid: None,
        },
        about: About::Nads(vec![NadName {
            namespace: "games".to_owned(),
            name: "lan".to_owned(),
        }]),
    })
}

fn has(answer: Answer, words: &str) -> bool {
    matches!(&answer, Answer::Refused(why) if why.contains(words))
}

/// Its plugins would be executed with a configuration that was replaced.
#[test]
fn nad_that_cannot_be_read_attaches_no_pod_and_stays_for_rules() {
    let options = options();
    let mut seen = Seen::new(&options, BTreeSet::new());
    let all = Selection::all(Kind::NetworkAttachmentDefinition);
    seen.begin(all.clone());
    options.networks.complete();
    let answer = || answer_of(&options);
    let good = "{\"name\": \"n\", \"type\": \"bridge\"}";
    for before in [None, Some(good)] {
        if let Some(before) = before {
            assert_eq!(seen.hear(&all, nad(before)).len(), 1);
            assert!(matches!(answer(), Answer::Nads(_)), "{:?}", answer());
        }
        let broken = format!("{{\"name\": {:?}", vec![1; 5_000]);
        assert!(seen.hear(&all, nad(&broken)).is_empty());
        assert!(has(answer(), "cannot be read"), "{:?}", answer());
        let number = format!("{{\"name\": {:?}}}", vec![1; 5_000]);
        assert!(seen.hear(&all, nad(&number)).is_empty());
        let Answer::Refused(why) = answer() else {
            panic!("{:?}", answer());
        };
        assert!(why.len() < 500, "{}", why.len());
    }
    // The same text as before.
    seen.hear(&all, nad(good));
    assert!(matches!(answer(), Answer::Nads(_)), "{:?}", answer());
    seen.hear(&all, nad("{"));
    seen.hear(&all, Told::Gone(ObjectName::new("games", "lan")));
    assert!(has(answer(), "exists"), "{:?}", answer());
}

/// The checkpoint keeps the configuration that could be read, since rules need the network.
#[test]
fn nad_that_cannot_be_read_attaches_no_pod_after_restarts_without_the_api_server() {
    let directory = tempfile::tempdir().unwrap();
    let all = Selection::all(Kind::NetworkAttachmentDefinition);
    let good = "{\"name\": \"n\", \"type\": \"bridge\"}";
    let began = || {
        let options = options();
        let mut seen = Seen::new(&options, BTreeSet::new());
        // Of the others nothing was written.
        let others = options.selections();
        others.iter().for_each(|it| drop(seen.end(it)));
        seen.begin(all.clone());
        options.networks.complete();
        (options, seen)
    };
    let mut saved = Saved::new(directory.path(), "node1", Arc::default());
    let (options, mut seen) = began();
    seen.hear(&all, nad(good));
    seen.hear(&all, nad("{"));
    assert!(has(answer_of(&options), "cannot be read"));
    saved.write(|kind| seen.texts(kind)).unwrap();
    for restart in 0..2 {
        let (options, mut seen) = began();
        let (_, changes) = seen.remember(|kind| saved.read(kind));
        assert_eq!(changes.len(), 1, "the network stays for rules");
        let mut problems = seen.batch(Vec::new()).problems.into_iter();
        let is_listed = |it: Problem| it.message.contains("games/lan is in force as it was");
        assert!(problems.any(is_listed), "restart {restart}");
        let answer = answer_of(&options);
        assert!(
            has(answer, "cannot be read"),
            "restart {restart}: {:?}",
            answer_of(&options)
        );
        saved.write(|kind| seen.texts(kind)).unwrap();
        if restart == 1 {
            seen.hear(&all, nad(good));
            let answer = answer_of(&options);
            assert!(matches!(answer, Answer::Nads(_)), "{answer:?}");
        }
    }
}

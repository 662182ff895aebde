//! The agent that is killed: sources and engine as the executable has them, up to the point where
//! all that it knows of is done. The engine, which alone changes the kernel, is on the first thread:
//! that one can be followed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::exit;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use netqos_agent::{Asked, Engine, Event, Options, agent_lock};
use netqos_datapath::Paths;
use netqos_testkit::stop_here;

use crate::Way;
use crate::stage::MANIFESTS;

/// The file of objects.
pub const OBJECTS: &str = "objects.yaml";
/// What the engine leaves for later it does when it was quiet for a second.
const LATER: Duration = Duration::from_millis(1300);
const PATIENCE: Duration = Duration::from_secs(20);

/// What the file of objects becomes once an agent runs that is to hear of it. As long as it is there,
/// the agent has nothing to do that is looked at.
pub fn next() -> PathBuf {
    Path::new(MANIFESTS).join(".next")
}

pub fn run(way: Way) {
    // While it has no other thread that the signal might reach.
    stop_here().unwrap();
    let paths = Paths::from_variables(|_| None);
    let _lock = agent_lock(paths.run()).unwrap();
    let caches = vec![PathBuf::from("/var/lib/cni")];
    let (sender, events) = channel();
    let engine = Engine::new(Options {
        node: "node1".to_owned(),
        paths,
        proc: "/proc".into(),
        caches: caches.clone(),
        hook: Default::default(),
        egress: Default::default(),
        peers: netqos_index::PeerSource::Pods,
        enforce: Default::default(),
        classes: Default::default(),
        reports: None,
        sources: vec!["manifests", "attachments"],
    });
    netqos_agent::watch_manifests(Path::new(MANIFESTS).to_owned(), sender.clone()).unwrap();
    netqos_agent::watch_attachments(caches, sender.clone()).unwrap();
    thread::spawn(move || see_to_it(way, &sender));
    engine.run(&events);
}

/// Ends the agent when it has nothing to do any more.
fn see_to_it(way: Way, events: &Sender<Event>) {
    wait_for(events, |asked| asked.status.is_ready());
    thread::sleep(LATER);
    if way == Way::Hears {
        let times = ask(events).status.reconciled.times;
        fs::rename(next(), Path::new(MANIFESTS).join(OBJECTS)).unwrap();
        wait_for(events, |asked| {
            asked.status.reconciled.times > times && asked.status.is_ready()
        });
        thread::sleep(LATER);
    }
    // Nobody hears it when the engine has ended by itself, which the test gets to know.
    let _ = events.send(Event::Stop);
}

fn wait_for(events: &Sender<Event>, is_so: impl Fn(&Asked) -> bool) {
    let began = Instant::now();
    while !is_so(&ask(events)) {
        if began.elapsed() > PATIENCE {
            eprintln!("it does not get there");
            exit(2);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn ask(events: &Sender<Event>) -> Asked {
    let (answer, answered) = sync_channel(1);
    let asked = events.send(Event::Ask(answer)).ok();
    let Some(asked) = asked.and_then(|()| answered.recv().ok()) else {
        eprintln!("the engine has ended");
        exit(2);
    };
    asked
}

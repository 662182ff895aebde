//! The agent that is killed: sources and engine as the executable has them, up to the point where
//! all that it knows of is done. The engine, which alone changes the kernel, is on the first thread:
//! that one can be followed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::exit;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use netqos_agent::{Engine, Event, Locator, Look, Options, agent_lock};
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
        pod: None,
        paths,
        proc: "/proc".into(),
        caches: caches.clone(),
        multinet_records: "/var/lib/netqos/multinet/pods".into(),
        hook: Default::default(),
        egress: Default::default(),
        peers: netqos_index::PeerSource::Pods,
        enforce: Default::default(),
        classes: Default::default(),
        reports: None,
        sources: vec!["manifests", "attachments"],
    });
    netqos_agent::watch_manifests(
        Path::new(MANIFESTS).to_owned(),
        netqos_agent::NetworkCatalog::new("node1"),
        sender.clone(),
    )
    .unwrap();
    netqos_agent::watch_attachments(Locator::new(caches), Default::default(), sender.clone())
        .unwrap();
    thread::spawn(move || see_to_it(way, &sender));
    engine.run(&events);
}

/// Ends the agent when it has nothing to do any more.
fn see_to_it(way: Way, events: &Sender<Event>) {
    wait_for(events, is_ready);
    thread::sleep(LATER);
    if way == Way::Hears {
        let times = look(events, |engine| engine.reconciled().times);
        fs::rename(next(), Path::new(MANIFESTS).join(OBJECTS)).unwrap();
        wait_for(events, move |engine| {
            engine.reconciled().times > times && is_ready(engine)
        });
        thread::sleep(LATER);
    }
    // Nobody hears it when the engine has ended by itself, which the test gets to know.
    let _ = events.send(Event::Stop);
}

fn is_ready(engine: &Engine) -> bool {
    engine.checks().iter().all(|check| check.ok)
}

fn wait_for(events: &Sender<Event>, is_so: impl Fn(&Engine) -> bool + Send + Copy + 'static) {
    let began = Instant::now();
    while !look(events, is_so) {
        if began.elapsed() > PATIENCE {
            eprintln!("it does not get there");
            exit(2);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn look<T: Send + 'static>(
    events: &Sender<Event>,
    look: impl FnOnce(&Engine) -> T + Send + 'static,
) -> T {
    let (look, answered) = Look::new(look);
    let asked = events.send(Event::Look(look)).ok();
    let Some(seen) = asked.and_then(|()| answered.blocking_recv().ok()) else {
        eprintln!("the engine has ended");
        exit(2);
    };
    seen
}

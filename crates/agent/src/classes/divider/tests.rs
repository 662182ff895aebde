use std::fs;

use netqos_classes::{Error, Outcome, Result, Traffic};
use netqos_core::Direction;
use tempfile::TempDir;

use super::*;

/// What was done, in order.
type Done = Arc<Mutex<Vec<String>>>;

/// A backend that does what a test says.
#[derive(Debug)]
struct Backend(BackendKind, Done, Arc<Mutex<Option<&'static str>>>);

impl Backend {
    fn act(&self, what: &str) -> Result<()> {
        self.1.lock().unwrap().push(format!("{} {what}", self.0));
        match *self.2.lock().unwrap() {
            Some(broken) if broken == what => Err(Error::NoLine("eth0".to_owned())),
            _ => Ok(()),
        }
    }

    fn stalled(&self) -> Vec<StalledQueue> {
        let queue = StalledQueue {
            link: "eth0".into(),
            direction: Direction::Egress,
            htb_class: "6e71:15".to_owned(),
            dropped: 7,
        };
        let has_stalled = *self.2.lock().unwrap() == Some("queue");
        has_stalled.then_some(queue).into_iter().collect()
    }
}

impl ClassBackend for Backend {
    fn kind(&self) -> BackendKind {
        self.0
    }

    fn apply(&mut self, plan: &ClassPlan) -> Result<Outcome> {
        self.act("apply")?;
        Ok(Outcome {
            lines: plan.lines.keys().cloned().collect(),
            changes: 1,
            stalled: self.stalled(),
            ..Outcome::default()
        })
    }

    fn standing(&mut self) -> Result<BTreeMap<Arc<str>, Standing>> {
        Ok(BTreeMap::new())
    }

    fn traffic(&mut self, _: &str) -> Result<Traffic> {
        Ok(Traffic::new())
    }

    fn teardown(&mut self) -> Result<()> {
        self.act("teardown")
    }
}

struct Scene {
    run: TempDir,
    done: Done,
    broken: Arc<Mutex<Option<&'static str>>>,
}

impl Scene {
    fn new() -> Self {
        Self {
            run: tempfile::tempdir().unwrap(),
            done: Done::default(),
            broken: Arc::default(),
        }
    }

    fn begin(&self) -> Divider {
        let (done, broken) = (self.done.clone(), self.broken.clone());
        let open = move |kind| -> netqos_classes::Result<Box<dyn ClassBackend>> {
            if kind == BackendKind::TerwayQos {
                return Err(netqos_classes::Error::NoLine("none".to_owned()));
            }
            Ok(Box::new(Backend(kind, done.clone(), broken.clone())))
        };
        Divider::begin(self.run.path().to_owned(), open).unwrap()
    }

    /// Waits until so much was done.
    fn wait(&self, done: &[&str]) {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(10) {
            if *self.done.lock().unwrap() == done {
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
        panic!("{:?}, not {done:?}", self.done.lock().unwrap());
    }

    fn record(&self) -> Option<String> {
        fs::read_to_string(self.run.path().join("class-backend")).ok()
    }
}

fn order(kind: BackendKind) -> Order {
    Order {
        kind,
        plan: Some(Arc::default()),
    }
}

fn until(divider: &Divider, is_so: impl Fn(&Shown) -> bool) -> Shown {
    let began = Instant::now();
    loop {
        let shown = divider.shown();
        if is_so(&shown) {
            return shown;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{shown:?}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn the_same_is_ordered_once_and_another_backend_comes_after_the_teardown_of_the_first() {
    let scene = Scene::new();
    let mut divider = scene.begin();
    divider.order(order(BackendKind::Kernel), false);
    scene.wait(&["kernel apply"]);
    let shown = until(&divider, |it| it.changes == 1);
    assert_eq!(
        (shown.kind, shown.failure),
        (Some(BackendKind::Kernel), None)
    );
    assert_eq!(scene.record().unwrap(), "kernel\n");
    divider.order(order(BackendKind::Kernel), false);
    divider.order(order(BackendKind::Tc), false);
    scene.wait(&["kernel apply", "kernel teardown", "tc apply"]);
    divider.order(order(BackendKind::None), false);
    until(&divider, |it| it.kind == Some(BackendKind::None));
    scene.wait(&[
        "kernel apply",
        "kernel teardown",
        "tc apply",
        "tc teardown",
        "none apply",
    ]);
    assert_eq!(scene.record(), None);
}

#[test]
fn what_another_process_left_is_torn_down_unless_it_is_to_stay() {
    let scene = Scene::new();
    let mut divider = scene.begin();
    divider.order(order(BackendKind::Kernel), false);
    scene.wait(&["kernel apply"]);
    drop(divider);

    // It is not known what is to be in force: what is stays.
    let mut divider = scene.begin();
    divider.order(
        Order {
            kind: BackendKind::Kernel,
            plan: None,
        },
        false,
    );
    until(&divider, |it| it.kind == Some(BackendKind::Kernel));
    scene.wait(&["kernel apply"]);
    divider.order(
        Order {
            kind: BackendKind::Tc,
            plan: None,
        },
        false,
    );
    scene.wait(&["kernel apply", "kernel teardown"]);
    until(&divider, |it| it.kind == Some(BackendKind::Tc));
    assert_eq!(scene.record(), None);
}

#[test]
fn what_fails_is_tried_again_and_the_next_backend_waits_for_it() {
    let scene = Scene::new();
    let mut divider = scene.begin();
    divider.order(order(BackendKind::Kernel), false);
    scene.wait(&["kernel apply"]);
    *scene.broken.lock().unwrap() = Some("teardown");
    divider.order(order(BackendKind::Tc), false);
    let shown = until(&divider, |it| it.failure.is_some());
    assert_eq!(
        shown.failure.unwrap(),
        "kernel is not torn down, and tc waits for that: there is no link eth0"
    );
    assert_eq!(scene.record().unwrap(), "kernel\n");
    *scene.broken.lock().unwrap() = None;
    until(&divider, |it| it.failure.is_none());
    let done = scene.done.lock().unwrap().clone();
    assert_eq!(done.last().unwrap(), "tc apply", "{done:?}");
    assert!(!done.contains(&"kernel apply".to_owned()) || done[0] == "kernel apply");

    divider.order(order(BackendKind::TerwayQos), false);
    let shown = until(&divider, |it| it.failure.is_some());
    assert_eq!(shown.failure.unwrap(), "there is no link none");
}

/// What a line was, and is not any more, had it: the one in its place has not.
#[test]
fn the_same_is_ordered_anew_where_it_was_done_to_something_else() {
    let scene = Scene::new();
    let mut divider = scene.begin();
    divider.order(order(BackendKind::Kernel), false);
    scene.wait(&["kernel apply"]);
    divider.order(order(BackendKind::Kernel), true);
    scene.wait(&["kernel apply", "kernel apply"]);
}

#[test]
fn repair_and_stalled_queue_are_counted_apart() {
    let scene = Scene::new();
    let mut divider = scene.begin();
    divider.order(order(BackendKind::Kernel), false);
    scene.wait(&["kernel apply"]);
    divider.repair();
    let shown = until(&divider, |it| it.changes == 2);
    assert_eq!((shown.restored, shown.emptied, shown.dropped), (1, 0, 0));
    *scene.broken.lock().unwrap() = Some("queue");
    divider.repair();
    let shown = until(&divider, |it| it.changes == 3);
    assert_eq!((shown.restored, shown.emptied, shown.dropped), (1, 1, 7));
    assert_eq!(
        shown.stalled[0].to_string(),
        "the egress queue of HTB class 6e71:15 of eth0 stopped sending; netqos dropped the 7 packets in it"
    );
    *scene.broken.lock().unwrap() = None;
    divider.repair();
    let shown = until(&divider, |it| it.changes == 4);
    assert_eq!((shown.restored, shown.emptied, shown.dropped), (2, 1, 7));
    assert_eq!(shown.stalled, []);
}

//! Pods of a cluster that come and go, for ever.
//!
//! One goes and another comes in its place, as when a Deployment is rolled out; which, jumps about in
//! the cluster, so that hardly two of them are of one namespace: nothing is cheaper for the controller
//! because it comes together. Each pod that comes is told of three times, and so is each that goes.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use anyhow::Result;
use netqos_core::objects::Pod;
use netqos_kubernetes::Operation;

use super::objects::{Age, nth_pod, pod_object};
use super::server::{Server, delete_pod, put};

/// After how long what follows the making of a pod: it has a node, it runs, the one before it is told
/// to go, has ended, and is gone.
const SCHEDULED: Duration = Duration::from_millis(200);
const RUNNING: Duration = Duration::from_millis(1_000);
const GOING: Duration = Duration::from_millis(1_100);
const ENDED: Duration = Duration::from_millis(1_800);
const GONE: Duration = Duration::from_millis(2_000);

/// As long as it takes from the first that happens to a pod to the last: from then on as many go as come.
pub const WARM: Duration = Duration::from_secs(3);

/// What happens to pods.
pub struct Replay {
    pods: u32,
    nodes: u32,
    /// How many pods of this number there were before the one that there is.
    before: HashMap<u32, u32>,
    /// What is to happen, in the order of when.
    due: [VecDeque<(Instant, Pod)>; 5],
    steps: u32,
    /// Until when it has been stepped.
    until: Option<Instant>,
    /// Pods that have come or gone.
    pub changes: u64,
    /// What was told of them.
    pub events: u64,
}

impl Replay {
    /// Of so many pods, on so many nodes, each of which is there.
    pub fn new(pods: u32, nodes: u32) -> Self {
        Self {
            pods,
            nodes,
            before: HashMap::new(),
            due: Default::default(),
            steps: 0,
            until: None,
            changes: 0,
            events: 0,
        }
    }

    /// So many pods come and go in a second, for so long since the end of the step before.
    pub fn step(&mut self, server: &Server, rate: u32, time: Duration) -> Result<()> {
        let began = self.until.unwrap_or_else(Instant::now);
        self.until = Some(began + time);
        let mut begun = 0;
        loop {
            // What is due after its end is of the next step, however late this thread comes to it.
            let now = Instant::now().min(began + time);
            let passed = now.duration_since(began);
            // One that comes and one that goes are two changes.
            let wanted = (passed.as_secs_f64() * f64::from(rate) / 2.0) as u32;
            let mut made = Vec::new();
            while begun < wanted {
                begun += 1;
                let at = Duration::from_secs_f64(f64::from(begun) * 2.0 / f64::from(rate));
                made.push(self.begin(began + at));
            }
            server.write(made)?;
            self.go_on(server, now)?;
            if passed == time {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The counts begin anew; what is on its way, is.
    pub fn count_anew(&mut self) {
        (self.changes, self.events) = (0, 0);
    }

    /// What is on its way arrives.
    pub fn finish(&mut self, server: &Server) -> Result<()> {
        while self.due.iter().any(|due| !due.is_empty()) {
            self.go_on(server, Instant::now())?;
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn begin(&mut self, now: Instant) -> Operation {
        let number = self.steps.wrapping_mul(7919) % self.pods;
        self.steps += 1;
        let before = self.before.entry(number).or_default();
        let old = nth_pod(number, *before, self.nodes);
        *before += 1;
        let new = nth_pod(number, *before, self.nodes);
        let made = self.tell(&new, Age::Pending);
        let [scheduled, running, going, ended, gone] = &mut self.due;
        scheduled.push_back((now + SCHEDULED, new.clone()));
        running.push_back((now + RUNNING, new));
        going.push_back((now + GOING, old.clone()));
        ended.push_back((now + ENDED, old.clone()));
        gone.push_back((now + GONE, old));
        made
    }

    fn go_on(&mut self, server: &Server, now: Instant) -> Result<()> {
        let ages = [Age::Scheduled, Age::Running, Age::Going, Age::Ended];
        for place in 0..self.due.len() {
            let mut writes = Vec::new();
            while let Some((at, _)) = self.due[place].front()
                && *at <= now
                && let Some((_, pod)) = self.due[place].pop_front()
            {
                writes.push(match ages.get(place) {
                    Some(age) => self.tell(&pod, *age),
                    None => {
                        self.events += 1;
                        delete_pod(&pod.id.name.namespace, &pod.id.name.name)
                    }
                });
                self.changes += u64::from(place == 1 || place == 4);
            }
            // What comes next of a pod comes after it.
            server.write(writes)?;
        }
        Ok(())
    }

    fn tell(&mut self, pod: &Pod, age: Age) -> Operation {
        self.events += 1;
        put("pods", &pod_object(pod, age))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::server::Server;
    use super::{Replay, WARM};

    /// Also of those at the edges: who came before the time goes within it.
    #[test]
    fn once_it_is_warm_as_many_change_as_are_asked_for() {
        let server = Server::start().unwrap();
        let mut replay = Replay::new(1_000, 10);
        replay.step(&server, 100, WARM).unwrap();
        replay.count_anew();
        for _ in 0..4 {
            replay
                .step(&server, 100, Duration::from_millis(500))
                .unwrap();
        }
        let changes = replay.changes;
        assert!((196..=204).contains(&changes), "{changes}");
    }
}

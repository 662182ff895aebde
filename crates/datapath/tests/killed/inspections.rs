//! Inspections that are killed: the program is put back where others took it away, and first where
//! others came before it, whoever comes next; and packets keep their marks on the way.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Instant;

use netqos_api::HookChoice;
use netqos_bpf::Pins;
use netqos_datapath::rules::Outcome;
use netqos_testkit::rules::state::difference;
use netqos_testkit::{
    Call, ForeignHook, ForeignProgram, Pod, Step, TcAttachType, Then, Verdict, stop_here,
};

use crate::plans::{Facts, Rules};
use crate::probes::{Marks, Probe};
use crate::scene::{Scene, open, remove};
use crate::{HOOK, PODS, hook_of};

/// What a process is that this program is started as again.
const ROLE: &str = "NETQOS_TEST_INSPECTS";
/// It inspects what others have done since it came.
const VICTIM: &str = "victim";
/// It comes after one that was killed.
const NEXT: &str = "next";
/// What the rules are meanwhile.
const RULES: Rules = Rules::Old;
/// An inspection has fewer steps than a way from rules to rules.
const FINER: usize = 4;
/// Fewer steps than any inspection takes.
const FEW: usize = 6;

/// What others do to the programs of all pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    /// They come before them with programs of their own.
    ComeBefore,
    /// They take them away.
    TakeAway,
}

/// Programs that came to stand on this hook, and what others do to them.
#[derive(Clone, Copy, Debug)]
pub struct Inspection {
    hook: &'static str,
    harm: Harm,
}

/// The first one moves the program from clsact to tcx.
pub const INSPECTIONS: [Inspection; 4] = [
    inspection("auto", Harm::ComeBefore),
    inspection("tcx", Harm::ComeBefore),
    inspection("clsact", Harm::TakeAway),
    inspection("tcx", Harm::TakeAway),
];

const fn inspection(hook: &'static str, harm: Harm) -> Inspection {
    Inspection { hook, harm }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, inspected after others {:?}", self.hook, self.harm)
    }
}

/// What a process does that was started to inspect; `false`: it was not.
pub fn take_part() -> bool {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let role = variable(ROLE);
    if role.is_empty() {
        return false;
    }
    let pods: Vec<_> = variable(PODS).split(';').map(Facts::parse).collect();
    let hook = hook_of(&variable(HOOK));
    match role.as_str() {
        VICTIM => {
            let plan = RULES.plan(&pods);
            let mut datapath = open(hook);
            let outcome = datapath.sync(&plan);
            assert_eq!((outcome.problems, outcome.changes), (vec![], 0));
            // It is followed from here on, and harm is done to it at the second stop.
            stop_here().unwrap();
            stop_here().unwrap();
            let outcome = datapath.inspect(&plan);
            assert_eq!(outcome.problems, []);
            assert_eq!(outcome.restored.len(), plan.endpoints.len());
        }
        _ => {
            stop_here().unwrap();
            let outcome = come_next(hook, &pods);
            assert_eq!(outcome.problems, []);
        }
    }
    true
}

/// What an agent does when it starts, and ten seconds later.
fn come_next(hook: HookChoice, pods: &[Facts]) -> Outcome {
    let plan = RULES.plan(pods);
    let mut datapath = open(hook);
    let synced = datapath.sync(&plan);
    assert_eq!(synced.problems, []);
    datapath.tidy().unwrap();
    let inspected = datapath.inspect(&plan);
    Outcome {
        changes: synced.changes + inspected.changes,
        ..inspected
    }
}

impl Inspection {
    /// Kills it before each of these steps, one after the other.
    pub fn killed_at_every_step(self, stride: usize) {
        let hook = hook_of(self.hook);
        let Some(mut scene) = Scene::new(hook) else {
            return;
        };
        let began = Instant::now();
        let whole = self.go(&mut scene, None, None);
        let stride = stride.div_ceil(FINER);
        let mut moments = 0;
        while self.is_killed(&mut scene, moments * stride, &whole) {
            moments += 1;
        }
        println!("{self}: {moments} moments in {:.1?}", began.elapsed());
        assert!(moments * stride > FEW, "it was not followed");
        remove();
        scene.assert_is_whole(Rules::Removed, "at the end");
    }

    /// False when it had no such step.
    fn is_killed(self, scene: &mut Scene, nth: usize, whole: &[String]) -> bool {
        let mut killed = false;
        self.go(scene, Some((nth, &mut killed)), Some(whole));
        killed
    }

    /// Lets it come to its end, or be killed before this step and another end it; what the node
    /// then holds has to be the `whole`.
    fn go(
        self,
        scene: &mut Scene,
        mut kill: Option<(usize, &mut bool)>,
        whole: Option<&[String]>,
    ) -> Vec<String> {
        scene.reach(Rules::None);
        scene.reach(RULES);
        let mut watch = Watch::new(scene);
        let mut others = None;
        let mut steps = 0;
        let outcome = self
            .process(scene, VICTIM)
            .step_by_step(|step| {
                if step == Step::Stop {
                    others = Some(self.harm.is_done(scene));
                    if self.harm == Harm::TakeAway {
                        watch.is_taken_away = true;
                        scene.wait_until_nothing_is_marked();
                    }
                    return Then::Go;
                }
                steps += 1;
                match &mut kill {
                    Some((nth, killed)) if steps > *nth && others.is_some() => {
                        **killed = true;
                        Then::Kill
                    }
                    _ => Then::Go,
                }
            })
            .unwrap();
        let nth = kill.as_ref().map(|(nth, _)| *nth);
        let is_killed = kill.is_some_and(|(_, killed)| *killed);
        let what = format!("{self}, killed at step {nth:?}");
        let code = if is_killed { None } else { Some(0) };
        assert_eq!(outcome.code, code, "{what}: {}", outcome.stderr);
        watch.look(scene, &what);
        let outcome = self
            .process(scene, NEXT)
            .step_by_step(|step| {
                watch.look(scene, &format!("{what}, the next before {step:?}"));
                Then::Go
            })
            .unwrap();
        assert_eq!(outcome.code, Some(0), "{what}: {}", outcome.stderr);
        scene.assert_met(RULES, &what);
        let again = come_next(hook_of(self.hook), &scene.facts);
        let found = (again.problems, again.restored, again.changes);
        assert_eq!(found, (vec![], vec![], 0), "{what}: a second time");
        let now = scene.state();
        if let Some(whole) = whole {
            assert!(
                now == whole,
                "{what}: not as undisturbed\n{}",
                difference(whole, &now)
            );
        }
        drop(others);
        scene.reach(Rules::None);
        scene.assert_is_whole(Rules::None, &what);
        now
    }

    fn process(self, scene: &Scene, role: &str) -> Call {
        let pods: Vec<_> = scene.facts.iter().map(ToString::to_string).collect();
        Call::bare(std::env::current_exe().unwrap(), "")
            .variable(ROLE, role)
            .variable(HOOK, self.hook)
            .variable(PODS, &pods.join(";"))
    }
}

impl Harm {
    /// The programs of others, who stand there as long as they are kept.
    fn is_done(self, scene: &Scene) -> Vec<ForeignProgram> {
        let pods = scene.pods.iter().zip(&scene.facts);
        match self {
            Self::ComeBefore => pods.map(|(pod, facts)| comes_before(pod, facts)).collect(),
            Self::TakeAway => {
                for (pod, facts) in pods {
                    let clsact = |link| ["qdisc", "del", "dev", link, "clsact"];
                    // Nothing is there for a pod without rules, or on the other hook.
                    let _ = match facts.is_veth {
                        true => scene.node.run("tc", &clsact(pod.host_link())),
                        false => pod.run(&scene.node, "tc", &clsact("eth0")),
                    };
                }
                let links = Pins::folder_in(Path::new("/sys/fs/bpf")).join("links");
                for link in fs::read_dir(links).into_iter().flatten().flatten() {
                    fs::remove_file(link.path()).unwrap();
                }
                Vec::new()
            }
        }
    }
}

/// Who hands on every packet.
fn comes_before(pod: &Pod, facts: &Facts) -> ForeignProgram {
    let attach = |link: &str, direction| {
        ForeignProgram::attach(link, direction, ForeignHook::TcxFirst, Verdict::Next).unwrap()
    };
    match facts.is_veth {
        true => attach(pod.host_link(), TcAttachType::Ingress),
        false => pod.inside(|| attach("eth0", TcAttachType::Egress)).unwrap(),
    }
}

/// Sends packets now and then, and sees that none is without the mark that it had.
struct Watch {
    wanted: Marks,
    /// What may be without its mark until the program is back.
    is_taken_away: bool,
    /// What has its mark again.
    back: BTreeSet<Probe>,
}

impl Watch {
    fn new(scene: &mut Scene) -> Self {
        let mut watch = Self {
            wanted: scene.wanted(RULES),
            is_taken_away: false,
            back: BTreeSet::new(),
        };
        watch.look(scene, "in force");
        watch
    }

    /// Once the program is back, it is there for good.
    fn look(&mut self, scene: &mut Scene, what: &str) {
        for (probe, mark) in scene.sent() {
            let right = self.wanted[&probe];
            let is_lost = self.is_taken_away && mark == Some(0) && !self.back.contains(&probe);
            assert!(
                mark == right || is_lost,
                "{what}: {probe:?} met {mark:?} and not {right:?}"
            );
            if self.is_taken_away && mark == right {
                self.back.insert(probe);
            }
        }
    }
}

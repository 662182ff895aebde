//! terway-qos' world: the folders that it reads, and a reader.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use netqos_api::koordinator::net_files::{parse_node, parse_pods};
use netqos_api::terway::{CgroupLimit, GlobalBps};
use netqos_classes::terway::ALL_LINES;
use netqos_classes::{ClassBackend, Standing};
use netqos_core::classes::{ClassPlan, PartId, Share, Shares, TrafficClass};
use netqos_core::{BitRate, Direction};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::Value;

use super::{Obstacle, Tampered, World};
use crate::Node;
use crate::classes::plans;

/// The folders on a disk of a few pages, which the test may fill.
pub struct TerwayQos {
    node: Node,
}

const TERWAY: &str = netqos_classes::terway::TERWAY_FOLDER;
const NET: &str = netqos_classes::terway::NET_FOLDER;

impl TerwayQos {
    fn global() -> PathBuf {
        Path::new(TERWAY).join("global_bps_config")
    }
}

impl World for TerwayQos {
    const CHANGES: bool = true;
    const TELLS_PODS: bool = true;
    const HAS_PACKETS: bool = false;
    const SEES_LINES: bool = false;

    fn new(node: Node) -> Self {
        fs::create_dir_all(TERWAY).unwrap();
        let world = Self { node };
        mount("tmpfs", TERWAY, "tmpfs", MountFlags::empty(), c"size=64k").unwrap();
        world
    }

    fn backend(&self) -> Box<dyn ClassBackend> {
        Box::new(netqos_classes::TerwayQos::default())
    }

    fn state(&self) -> String {
        let files = [TERWAY, "/run/koordinator"].map(|folder| self.node.files(folder));
        let line = |path: &String| {
            let found = fs::metadata(path).unwrap();
            let (inode, changed) = (found.ino(), (found.mtime(), found.mtime_nsec()));
            let (mode, size) = (found.mode(), found.len());
            // One that fills the disk says nothing.
            let text = if size > 9_000 {
                String::new()
            } else {
                fs::read_to_string(path).unwrap()
            };
            format!("{path} {inode} {changed:?} {mode:o} {size}\n{text}\n")
        };
        let text: String = files.concat().iter().map(line).collect();
        format!("{text}{}", Path::new("/run/koordinator").exists())
    }

    fn expected(&self, plan: &ClassPlan) -> BTreeMap<Arc<str>, Standing> {
        let mut standing = Standing::default();
        for direction in [Direction::Ingress, Direction::Egress] {
            let sum = |of: &dyn Fn(&Shares) -> BitRate| {
                let lines = plan.lines.values().map(|line| of(line.of(direction)));
                BitRate::from_bits_per_second(lines.map(BitRate::bits_per_second).sum())
            };
            for class in TrafficClass::ALL {
                let least = sum(&|line| line.of(class).min);
                let most = sum(&|line| line.of(class).max);
                standing.classes.insert((direction, class), (least, most));
            }
            for (uid, pod) in &plan.pods {
                if let Some(max) = pod.asked.of(direction).max {
                    let id = PartId {
                        pod: uid.clone(),
                        flow: None,
                    };
                    standing
                        .parts
                        .insert((direction, id), (BitRate::default(), max));
                }
            }
        }
        let line = match plan.lines.len() {
            1 => plan.lines.keys().next().unwrap().clone(),
            _ => ALL_LINES.into(),
        };
        BTreeMap::from([(line, standing)])
    }

    fn obstruct(&self) -> Obstacle<'_> {
        let filling = Path::new(TERWAY).join("somebody-elses");
        // Until there is no room for a page more.
        let _ = fs::write(&filling, vec![7; 1 << 20]);
        let clear = move || fs::remove_file(filling).unwrap();
        Obstacle::Everything(Box::new(clear), "No space left on device")
    }

    fn neighbours(&self) {
        fs::write(Path::new(TERWAY).join("node.json.bak"), "theirs").unwrap();
        fs::create_dir_all(NET).unwrap();
        fs::write(Path::new(NET).join("other"), "theirs").unwrap();
    }

    fn remove_line(&self, _: &str) {}

    fn add_line(&self, _: &str) {}

    fn tamper(&self) -> Option<Tampered> {
        let text = fs::read_to_string(Self::global()).unwrap();
        let text = text.replace("l2_tx_bps_min 37500000\n", "l2_tx_bps_min 1000000\n");
        fs::write(Self::global(), text).unwrap();
        let share: Share = Share {
            min: plans::mbit(8),
            max: plans::mbit(400),
        };
        let key = (Direction::Egress, TrafficClass::BestEffort);
        Some((plans::LINES[0], key, (share.min, share.max)))
    }

    /// Who reads again and again finds whole files.
    fn without_a_loss(&self, act: &mut dyn FnMut()) {
        let [old, new] = [plans::old(), plans::new()].map(|plan| {
            let mut backend = self.backend();
            backend.apply(&plan).unwrap();
            fs::read_to_string(Self::global()).unwrap()
        });
        self.backend().apply(&plans::old()).unwrap();
        let is_over = AtomicBool::new(false);
        let (met_old, met_new) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // A thread that this one starts shares its mounts.
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let global = fs::read_to_string(Self::global()).unwrap();
                    assert!(global == old || global == new, "{global:?}");
                    assert_ne!(GlobalBps::parse(&global).unwrap(), GlobalBps::default());
                    met_old.fetch_add(usize::from(global == old), Ordering::Relaxed);
                    met_new.fetch_add(usize::from(global == new), Ordering::Relaxed);
                    let read =
                        |folder, name| fs::read_to_string(Path::new(folder).join(name)).unwrap();
                    serde_json::from_str::<Value>(&read(TERWAY, "pod.json")).unwrap();
                    for line in read(TERWAY, "per_cgroup_bps_limit").lines() {
                        line.parse::<CgroupLimit>().unwrap();
                    }
                    parse_node(&read(NET, "node")).unwrap();
                    parse_pods(&read(NET, "pods")).unwrap();
                }
            });
            let met = || [&met_old, &met_new].map(|met| met.load(Ordering::Relaxed));
            for _ in 0..1_000 {
                act();
                if met().iter().all(|met| *met > 2) || reader.is_finished() {
                    break;
                }
            }
            is_over.store(true, Ordering::Relaxed);
            reader.join().unwrap();
            assert!(met().iter().all(|met| *met > 2), "{:?}: too slow", met());
        });
    }
}

impl Drop for TerwayQos {
    fn drop(&mut self) {
        let _ = unmount(TERWAY, UnmountFlags::DETACH);
    }
}

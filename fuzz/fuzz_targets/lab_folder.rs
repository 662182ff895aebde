//! A lab's folder: documents, and behind a line `===` the network. What is wrong is said with the
//! name of its file; what is understood is consistent.
#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use netqos_lab::manifest::{Manifests, Place};

fuzz_target!(|text: &str| {
    let (documents, network) = text.split_once("\n===\n").unwrap_or((text, ""));
    let folder = tempfile::tempdir().expect("a folder can be made");
    for (name, text) in [("all.yaml", documents), ("net.conflist", network)] {
        fs::write(folder.path().join(name), text).expect("a file can be written");
    }
    match Manifests::read(folder.path()) {
        Err(problem) => {
            let path = folder.path().display().to_string();
            assert!(problem.to_string().contains(&path), "{problem}");
        }
        Ok(read) => {
            let is_there = |place: &Place| match place {
                Place::Node => true,
                Place::Pod(name) => read.pods.iter().any(|pod| pod.pod.name == *name),
                Place::Outside(name) => {
                    let mut outside = read.scenario.outside.iter();
                    outside.any(|host| host.name == *name)
                }
            };
            for measurement in &read.scenario.measurements {
                assert!(is_there(&measurement.from) && is_there(&measurement.to));
            }
        }
    }
});

//! A folder of manifests, read into an index, without an agent and without root.

use std::path::Path;
use std::process::ExitCode;

use netqos_agent::{Batch, Folder, Locator};
use netqos_core::{Problem, Reason};
use netqos_index::Index;

use crate::output::{self, BAD_INPUT};

/// An index of what a folder says, and what is wrong with it.
pub struct Read {
    /// The index, settled.
    pub index: Index,
    /// What was left out, and what will not be as it is asked for.
    pub problems: Vec<Problem>,
}

/// Reads the folder for a node, and where its pods are if these caches of CNI results say so.
pub fn read(folder: &Path, node: &str, caches: &[std::path::PathBuf]) -> Result<Read, ExitCode> {
    let folder = Folder::open(folder).map_err(|why| output::failure(BAD_INPUT, &why));
    let mut batches: Vec<Batch> = vec![folder?.read()];
    if !caches.is_empty() {
        batches.push(Locator::new(caches.to_vec()).look());
    }
    let mut index = Index::for_node(node);
    let mut problems = Vec::new();
    for batch in batches {
        batch.changes.into_iter().for_each(|it| index.apply(it));
        problems.extend(batch.problems);
    }
    index.take_delta();
    // Nobody looked for interfaces: that none was found is no news.
    let is_news = |it: &Problem| !caches.is_empty() || it.reason != Reason::EndpointUnreachable;
    problems.extend(index.problems().into_iter().filter(is_news));
    problems.sort();
    Ok(Read { index, problems })
}

/// Says what is wrong on standard error.
pub fn tell(problems: &[Problem]) {
    for problem in problems {
        eprintln!("netqos: {problem}");
    }
}

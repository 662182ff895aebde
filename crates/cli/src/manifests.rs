//! Manifests, read without an agent and without root.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::{fs, io};

use netqos_agent::classes::ClassInput;
use netqos_agent::places::{MULTINET_RECORDS, STATE};
use netqos_agent::{Batch, Folder, Locator};
use netqos_analysis::Snapshot;
use netqos_core::objects::Pod;
use netqos_core::{ObjectName, OneLine, Problem, Reason};
use netqos_index::{Change, Index};

use crate::output::{self, BAD_INPUT};

/// An index of what a folder says, and what is wrong with it.
pub struct Read {
    /// The index, settled.
    pub index: Index,
    /// What was left out, and what will not be as it is asked for.
    pub problems: Vec<Problem>,
    /// What it says of who shares the lines of nodes.
    pub classes: Arc<ClassInput>,
}

/// Reads the folder for a node, and where its pods are if these caches of CNI results say so.
pub fn read(folder: &Path, node: &str, caches: &[std::path::PathBuf]) -> Result<Read, ExitCode> {
    let folder = Folder::open(folder).map_err(|why| output::failure(BAD_INPUT, &why));
    let mut batches: Vec<Batch> = vec![folder?.read()];
    if !caches.is_empty() {
        let records = Path::new(STATE).join(MULTINET_RECORDS);
        let mut locator = Locator::new(caches.to_vec()).with_records(records);
        batches.push(locator.look());
    }
    let mut index = Index::for_node(node);
    let mut problems = Vec::new();
    let mut classes = Arc::default();
    let mut pods: BTreeMap<ObjectName, Pod> = BTreeMap::new();
    for batch in batches {
        classes = batch.classes.unwrap_or(classes);
        for change in batch.changes {
            match &change {
                Change::Pod(pod) => drop(pods.insert(pod.id.name.clone(), pod.clone())),
                // Of another pod, which had the name before or has it next.
                Change::Attachments { pod, uid, .. }
                    if let (Some(pod), Some(uid)) = (pods.get(pod), uid)
                        && !pod.is_known_by(uid) =>
                {
                    continue;
                }
                _ => {}
            }
            index.apply(change);
        }
        problems.extend(batch.problems);
    }
    index.take_delta();
    // Nobody looked for interfaces: that none was found is no news.
    let is_news = |it: &Problem| !caches.is_empty() || it.reason != Reason::EndpointUnreachable;
    problems.extend(index.problems().into_iter().filter(is_news));
    problems.sort();
    Ok(Read {
        index,
        problems,
        classes,
    })
}

/// Says what is wrong on standard error.
pub fn tell(problems: &[Problem]) {
    for problem in problems {
        eprintln!("netqos: {problem}");
    }
}

/// Shows the text of each of these files, of the manifests in folders, and of standard input for `-`.
///
/// # Errors
/// One cannot be read, which was said; the others were shown.
pub fn texts(names: &[PathBuf], mut each: impl FnMut(&str, &str)) -> Result<(), ExitCode> {
    let mut done = Ok(());
    for name in names {
        let files = files(name).unwrap_or_else(|why| {
            done = Err(unreadable(name, &why));
            Vec::new()
        });
        for file in files {
            // An agent does not name what it cannot write down.
            let text = match file != *name
                && file.file_name().is_none_or(|it| it.to_str().is_none())
            {
                true => Err(io::Error::other(
                    "the file name is not UTF-8, and an agent leaves the file out; rename the file",
                )),
                false => read_text(&file),
            };
            match text {
                Ok(text) => each(&file.display().to_string(), &text),
                Err(why) => done = Err(unreadable(&file, &why)),
            }
        }
    }
    done
}

/// Puts the objects of these files among others.
///
/// # Errors
/// As [`texts`].
pub fn put(snapshot: &mut Snapshot, names: &[PathBuf]) -> Result<(), ExitCode> {
    texts(names, |file, text| snapshot.put_text(file, text))
}

fn unreadable(path: &Path, why: &io::Error) -> ExitCode {
    eprintln!("netqos: {}: {why}", OneLine(path.display()));
    ExitCode::from(BAD_INPUT)
}

/// The files of a directory that may hold manifests, by name, and links to none; or the file itself.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("yaml" | "yml" | "json")) && (path.is_file() || !path.exists())
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read_text(path: &Path) -> io::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    fs::read_to_string(path).map_err(|why| match path.is_symlink() && !path.exists() {
        true => io::Error::other("a link to a file that does not exist; fix or remove the link"),
        false => why,
    })
}

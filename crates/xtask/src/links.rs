//! Every relative link of a page leads to a file that is there, and to a heading of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::generated::root;

/// The pages that people read here.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    for folder in ["docs", "examples", "fuzz"] {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        pages.extend(paths.filter(|path| path.extension().is_some_and(|it| it == "md")));
    }
    pages
}

/// What is outside of blocks of code, in lines.
fn prose(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let mut is_code = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.map(ToOwned::to_owned).collect()
}

/// What the headings of a page are called in links: as GitHub makes it of their words.
fn anchors(page: &Path) -> BTreeSet<String> {
    let headings = prose(page).into_iter();
    let headings = headings.filter(|line| line.starts_with('#'));
    headings
        .map(|heading| {
            let words = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = words
                .chars()
                .filter(|it| it.is_alphanumeric() || " -_".contains(*it));
            kept.collect::<String>().replace(' ', "-")
        })
        .collect()
}

/// Where the links of a line lead.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let links = line.split("](").skip(1);
    links.filter_map(|rest| Some(rest.split_once(')')?.0))
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    let mut count = 0;
    for page in pages() {
        for line in prose(&page) {
            for target in targets(&line).filter(|it| !it.contains("://")) {
                count += 1;
                let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
                let there = match file {
                    "" => page.clone(),
                    file => page.parent().unwrap().join(file),
                };
                let leads =
                    there.exists() && (anchor.is_empty() || anchors(&there).contains(anchor));
                if !leads {
                    broken.push(format!("{}: {target}", page.display()));
                }
            }
        }
    }
    assert!(count > 100, "{count}");
    assert!(broken.is_empty(), "{broken:#?}");
}

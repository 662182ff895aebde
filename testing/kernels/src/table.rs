//! docs/kernels.md, written from the results of a run.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use crate::cell::{Cell, Outcome};
use crate::matrix::{self, CAPABILITIES, KERNELS};
use crate::programs::{self, Programs};
use crate::repository;
use crate::results::{Results, Stored};

const HEAD: &str = "\
`make test-kernels` writes this page from its results: change no figure here. Debian's packaged kernels (cloud, amd64) run
in emulated machines, whose clock counts executed instructions. Rates of 2 to 20 Mbit/s are meaningful there; absolute
throughput is not. [testing.md](testing.md#other-kernels) describes the tests.

| mark | meaning |
|---|---|
| ✔ | works as on any kernel |
| ≈ | works by other means, or not all of it: the text says how |
| ✘ | missing: the text says what netqos prints |
| – | not run |

";

const NOT_RUN: &str = "\
## Not run

- 5.15 and 6.6: Debian has no package of them. Between 5.10, 6.1 and 6.12 the minimum versions follow from the kernel's
  history.
- arm64, network cards of real machines, and absolute throughput: nothing here has them.
";

/// Writes docs/kernels.md.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn write(results: &Results) -> anyhow::Result<()> {
    let file = repository().join("docs/kernels.md");
    fs::write(file, render(results, &programs::digest()?)?)?;
    Ok(())
}

/// The page of a tree whose eBPF programs have this digest.
fn render(results: &Results, digest: &str) -> anyhow::Result<String> {
    let first = first_line(results, digest);
    let mut page = format!("# Kernels\n\n{first}\n\n{HEAD}");
    write!(page, "## Capabilities\n\n| capability |")?;
    for kernel in KERNELS {
        let mut stored = CAPABILITIES
            .iter()
            .filter_map(|row| results.last(&Cell { kernel, row }));
        let version = stored
            .next()
            .map_or_else(|| kernel.to_string(), |it| it.kernel.clone());
        write!(page, " {version} |")?;
    }
    writeln!(page, "\n|---|{}", "---|".repeat(KERNELS.len()))?;
    let mut notes = Vec::new();
    for row in CAPABILITIES {
        write!(page, "| {} |", row.title)?;
        for kernel in KERNELS {
            let cell = Cell { kernel, row };
            write!(page, " {} |", short(&cell, results.last(&cell), &mut notes))?;
        }
        writeln!(page)?;
    }
    writeln!(page)?;
    for (number, note) in notes.iter().enumerate() {
        writeln!(page, "{}. {note}", number + 1)?;
    }
    write!(
        page,
        "\n## Variations\n\n| variation | kernel | | outcome |\n|---|---|---|---|\n"
    )?;
    for cell in matrix::variations() {
        let stored = results.last(&cell);
        let (mark, shown) = stored.map_or(("–", "not run".to_owned()), |it| {
            (mark(it), shown(&cell, it))
        });
        let (kernel, title) = (cell.kernel, cell.row.title);
        writeln!(page, "| {title} | {kernel} | {mark} | {shown} |")?;
    }
    write!(page, "\n{}\n{NOT_RUN}", programs_section(results)?)?;
    Ok(page)
}

/// The number of results on each kernel that are not of the eBPF programs with this digest.
fn first_line(results: &Results, digest: &str) -> String {
    let mut differ = Vec::new();
    for kernel in KERNELS {
        let cells = matrix::cells().filter(|cell| cell.kernel == kernel);
        let all: Vec<_> = cells.filter_map(|cell| results.last(&cell)).collect();
        let is_same = |it: &&&Stored| matches!(&it.programs, Some(it) if it.digest == digest);
        let same = all.iter().filter(is_same).count();
        if same < all.len() {
            differ.push(format!("{} of {} on {kernel}", all.len() - same, all.len()));
        }
    }
    match differ.is_empty() {
        true => format!("All results are of this tree's eBPF programs, digest `{digest}`."),
        false => format!(
            "**Results of other eBPF programs than this tree's** (digest `{digest}`), or of programs that were not \
             recorded: {}. [Programs](#programs) lists them.",
            differ.join(", ")
        ),
    }
}

/// The commit and the digest of the programs of all results.
fn programs_section(results: &Results) -> anyhow::Result<String> {
    /// The most results that a line names.
    const FEW: usize = 8;
    let mut section = "\
## Programs

The commit of the executables that a result is of, and a digest of the sources of their eBPF programs (`crates/bpf/bpf`).

| kernel | results | commit | digest |
|---|---|---|---|
"
    .to_owned();
    for kernel in KERNELS {
        let mut by_programs: BTreeMap<Option<&Programs>, Vec<&str>> = BTreeMap::new();
        for cell in matrix::cells().filter(|cell| cell.kernel == kernel) {
            if let Some(stored) = results.last(&cell) {
                let same = by_programs.entry(stored.programs.as_ref()).or_default();
                same.push(cell.row.name);
            }
        }
        for (programs, names) in by_programs {
            let names = match names.len() {
                ..=FEW => names.join(", "),
                more => more.to_string(),
            };
            let (commit, digest) = programs.map_or_else(
                || ("not recorded".to_owned(), "not recorded".to_owned()),
                |it| (format!("`{}`", it.commit), format!("`{}`", it.digest)),
            );
            writeln!(section, "| {kernel} | {names} | {commit} | {digest} |")?;
        }
    }
    Ok(section)
}

/// A mark, with figures if they are few; longer text becomes a note, which equal texts share.
fn short(cell: &Cell, stored: Option<&Stored>, notes: &mut Vec<String>) -> String {
    const FEW: usize = 40;
    let Some(stored) = stored else {
        return "–".to_owned();
    };
    let (mark, text) = (mark(stored), shown(cell, stored));
    if text.chars().count() <= FEW {
        return format!("{mark} {text}");
    }
    let known = notes.iter().position(|note| *note == text);
    let number = known.unwrap_or_else(|| {
        notes.push(text);
        notes.len() - 1
    });
    format!("{mark} ({})", number + 1)
}

const fn mark(stored: &Stored) -> &'static str {
    match stored.verdict.outcome {
        Outcome::Works => "✔",
        Outcome::WorksOtherwise => "≈",
        Outcome::Missing => "✘",
    }
}

/// The text of a result in a cell of a table.
fn shown(cell: &Cell, stored: &Stored) -> String {
    let shown = stored.verdict.shown.replace('|', "\\|");
    match stored.verdict.outcome == cell.expected() {
        true => shown,
        false => format!("{shown}; the mark is an older judge's"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cell::Verdict;
    use crate::results_file;

    #[test]
    fn page_is_written_from_the_results() {
        let results = Results::open(&results_file()).unwrap();
        let page = fs::read_to_string(repository().join("docs/kernels.md")).unwrap();
        let written = render(&results, &programs::digest().unwrap()).unwrap();
        assert!(page == written, "make test-kernels ARGS=--table writes it");
    }

    /// Results of these cells, by the digest of their programs.
    fn results(directory: &Path, cells: &[(&str, &str)]) -> Results {
        let mut results = Results::open(&directory.join("results.json")).unwrap();
        for (name, digest) in cells {
            let programs = Programs {
                commit: "626426f492af".to_owned(),
                digest: (*digest).to_owned(),
            };
            let verdict = Verdict {
                outcome: Outcome::Works,
                shown: "9.56 Mbit/s".to_owned(),
            };
            let cell = matrix::parse(name).unwrap();
            let kernel = "6.1.192-2".to_owned();
            let stored = Stored::new("key".to_owned(), kernel, programs, verdict, 8);
            results.put(&cell, Some(stored)).unwrap();
        }
        results
    }

    #[test]
    fn first_line_counts_results_of_other_programs() {
        let directory = tempfile::tempdir().unwrap();
        let cells = [
            ("6.1/plugin", "same"),
            ("6.1/rules", "other"),
            ("6.12/rules", "same"),
        ];
        let results = results(directory.path(), &cells);
        let page = |digest| render(&results, digest).unwrap();
        let first = |digest| page(digest).lines().nth(2).unwrap().to_owned();
        assert!(first("same").contains(": 1 of 2 on 6.1. "));
        assert!(first("newer").contains(": 2 of 2 on 6.1, 1 of 1 on 6.12. "));
        assert!(page("same").contains("| 6.1 | rules | `626426f492af` | `other` |"));
    }

    #[test]
    fn first_line_of_results_of_these_programs_names_their_digest() {
        let directory = tempfile::tempdir().unwrap();
        let results = results(directory.path(), &[("6.1/plugin", "same")]);
        let page = render(&results, "same").unwrap();
        assert!(page.contains("All results are of this tree's eBPF programs, digest `same`."));
    }

    #[test]
    fn mark_of_an_older_judge_is_named() {
        let directory = tempfile::tempdir().unwrap();
        // The judge of the second one expects that it does not work.
        let cells = [("6.1/plugin", "same"), ("6.1/plugin-tcx", "same")];
        let page = render(&results(directory.path(), &cells), "same").unwrap();
        assert_eq!(page.matches("the mark is an older judge's").count(), 1);
    }
}

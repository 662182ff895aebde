//! docs/kernels.md, written from the results of a run.

use std::fmt::Write;
use std::fs;

use crate::cell::{Cell, Outcome};
use crate::matrix::{CAPABILITIES, KERNELS, VARIATIONS};
use crate::repository;
use crate::results::{Results, Stored};

const HEAD: &str = "\
# Kernels

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
    fs::write(file, render(results)?)?;
    Ok(())
}

fn render(results: &Results) -> anyhow::Result<String> {
    let mut page = HEAD.to_owned();
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
            let stored = results.last(&Cell { kernel, row });
            write!(page, " {} |", short(stored, &mut notes))?;
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
    for (kernel, row) in VARIATIONS {
        let stored = results.last(&Cell {
            kernel: *kernel,
            row,
        });
        let (mark, shown) =
            stored.map_or(("–", "not run".to_owned()), |it| (mark(it), shown(it)));
        writeln!(page, "| {} | {kernel} | {mark} | {shown} |", row.title)?;
    }
    write!(page, "\n{NOT_RUN}")?;
    Ok(page)
}

/// A mark, with figures if they are few; longer text becomes a note, which equal texts share.
fn short(stored: Option<&Stored>, notes: &mut Vec<String>) -> String {
    const FEW: usize = 40;
    let Some(stored) = stored else {
        return "–".to_owned();
    };
    let (mark, text) = (mark(stored), shown(stored));
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
fn shown(stored: &Stored) -> String {
    stored.verdict.shown.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results_file;

    #[test]
    fn page_is_written_from_the_results() {
        let results = Results::open(&results_file()).unwrap();
        let page = fs::read_to_string(repository().join("docs/kernels.md")).unwrap();
        let written = render(&results).unwrap();
        assert!(page == written, "make test-kernels ARGS=--table writes it");
    }
}

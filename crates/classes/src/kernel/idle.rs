//! While a line carries little, nobody has to wait for anybody, and packets pass beside the tree.

use std::time::Duration;

use netqos_bpf::classes::{Classes, Line, Passed, Tree};
use netqos_core::Direction;
use netqos_netlink::link::Link;
use rustix::time::{ClockId, clock_getres};

use super::form::Forms;
use crate::{Result, Traffic};

/// The part of a line that is little.
const LITTLE: u64 = 4;
/// In windows of at least this: what is sent at once when a line begins to carry more is no more than what
/// is little in one.
const WINDOW: Duration = Duration::from_millis(8);
/// For how long a line has to carry little before it is not divided any more, at least.
const HOLD: Duration = Duration::from_millis(250);

/// For how long it has to be so that nothing waits in the tree any more, which would be overtaken.
fn hold(forms: &Forms, total: u64) -> Duration {
    let limits = forms.slots.iter();
    let limits = limits.flat_map(|form| [form.quick_queue, form.bulk_queue]);
    let most: u64 = limits.map(|queue| u64::from(queue.limit())).sum();
    let nanos = u128::from(most) * 1_000_000_000 / u128::from(total.max(1));
    HOLD.max(Duration::from_nanos(nanos as u64))
}

/// What the programs are told of a line of so many bytes per second.
fn line(total: u64, hold: Duration, jiffy: Duration) -> Line {
    let jiffies = |time: Duration| time.as_nanos().div_ceil(jiffy.as_nanos().max(1)) as u32;
    let shift = jiffies(WINDOW).next_power_of_two().ilog2();
    let window = jiffy * (1 << shift);
    let room = u128::from(total / LITTLE) * window.as_nanos() / 1_000_000_000;
    Line::new(room as u64, shift, jiffies(hold))
}

/// How long one of the kernel's ticks is.
fn jiffy() -> Duration {
    let resolution = clock_getres(ClockId::MonotonicCoarse);
    Duration::new(resolution.tv_sec as u64, resolution.tv_nsec as u32)
}

/// Lets packets pass beside the tree of a line, or no more.
pub(super) fn apply(
    programs: &Classes,
    link: &Link,
    direction: Direction,
    forms: Option<&Forms>,
) -> Result<usize> {
    put(programs, link, direction, |_| wanted(forms))
}

/// Lets no more packets pass than may pass both before and after the tree is changed.
pub(super) fn restrict(
    programs: &Classes,
    link: &Link,
    direction: Direction,
    forms: Option<&Forms>,
) -> Result<usize> {
    put(programs, link, direction, |there| {
        wanted(forms).also_right_of(there)
    })
}

/// What the programs are to be told. Of a line that nobody knows the speed of nobody knows when it carries little:
/// there, the link may make packets wait at any time.
fn wanted(forms: Option<&Forms>) -> Line {
    let known = forms.and_then(|forms| Some((forms, forms.carries?)));
    let wanted = known.map(|(forms, carries)| line(carries, hold(forms, carries), jiffy()));
    wanted.unwrap_or_default()
}

fn put(
    programs: &Classes,
    link: &Link,
    direction: Direction,
    wanted: impl FnOnce(&Line) -> Line,
) -> Result<usize> {
    let tree = Tree::new(link.index, direction);
    let Some(there) = programs.leaves.line(tree)? else {
        return Ok(0);
    };
    // What was counted stays counted, also of one that is divided always from now on.
    let wanted = wanted(&there);
    if there.is_same(&wanted) {
        return Ok(0);
    }
    programs.leaves.put_line(tree, &wanted.going_on(&there))?;
    Ok(1)
}

/// Adds what has passed beside a line's trees.
pub(super) fn count(programs: &Classes, link: &Link, traffic: &mut Traffic) -> Result<()> {
    for ((direction, class), counted) in traffic {
        let line = programs.leaves.line(Tree::new(link.index, *direction))?;
        let Passed { packets, bytes } = line.unwrap_or_default().passed(*class);
        counted.packets += packets;
        counted.bytes += bytes;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_a_line_is_little() {
        let second = 1_000_000_000 / 8;
        for (hz, shift, room, hold) in [
            (100, 0, 312_500, 25),
            (250, 1, 250_000, 63),
            (300, 2, 416_666, 76),
            (1000, 3, 250_000, 250),
        ] {
            let jiffy = Duration::from_nanos(1_000_000_000 / hz);
            let found = line(second, HOLD, jiffy);
            assert_eq!(found, Line::new(room, shift, hold), "{hz}");
        }
    }
}

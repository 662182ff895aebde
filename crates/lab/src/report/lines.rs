//! The lines of nodes, and how they are shared.

use netqos_agent::{LineStatus, Status};
use netqos_core::{BitRate, Direction};
use serde::Serialize;

/// A line of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LineReport {
    /// The node's name.
    pub node: String,
    /// Who is to divide it.
    pub backend: String,
    /// Its link, and what each class may take of it, in bit/s.
    #[serde(flatten)]
    pub line: LineStatus,
}

impl LineReport {
    /// All lines of a node.
    pub(crate) fn all(node: &str, status: &Status) -> impl Iterator<Item = Self> {
        status.lines.iter().map(|line| Self {
            node: node.to_owned(),
            backend: status.class_backend.clone(),
            line: line.clone(),
        })
    }

    /// Who divides it, in words.
    pub(crate) fn divided_by(&self) -> &str {
        divided_by(&self.line)
    }

    /// What each class is guaranteed and may have at most, of what is sent and of what comes.
    pub(crate) fn by_class(&self) -> impl Iterator<Item = (&str, [Option<(BitRate, BitRate)>; 2])> {
        let classes = self.line.shares.iter().map(|share| share.class.as_str());
        let mut names: Vec<&str> = Vec::new();
        for class in classes {
            if !names.contains(&class) {
                names.push(class);
            }
        }
        let both = [Direction::Egress, Direction::Ingress];
        names
            .into_iter()
            .map(move |class| (class, both.map(|direction| self.share(class, direction))))
    }

    fn share(&self, class: &str, direction: Direction) -> Option<(BitRate, BitRate)> {
        let direction = direction.to_string();
        let mut shares = self.line.shares.iter();
        let share = shares.find(|it| it.class == class && it.direction == direction)?;
        let rate = BitRate::from_bits_per_second;
        Some((rate(share.min), rate(share.max)))
    }

    /// What a class is guaranteed; `None` where it is nothing.
    pub(crate) fn guarantee(&self, class: &str, direction: Direction) -> Option<BitRate> {
        let (min, _) = self.share(class, direction)?;
        (min.bits_per_second() > 0).then_some(min)
    }

    /// The most that any class may have.
    pub(crate) fn most(&self, direction: Direction) -> Option<BitRate> {
        let direction = direction.to_string();
        let shares = self.line.shares.iter();
        let most = shares
            .filter(|it| it.direction == direction)
            .map(|it| it.max);
        most.max().map(BitRate::from_bits_per_second)
    }
}

/// Who divides a line, in words: it need not be who is to.
pub(crate) fn divided_by(line: &LineStatus) -> &str {
    match line.divided_by.as_str() {
        "" => "nobody",
        by => by,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use netqos_agent::ShareStatus;

    use super::*;

    /// A line that this backend divides, where `kernel` is to.
    pub(in crate::report) fn line(divided_by: &str) -> LineReport {
        let share = ShareStatus {
            class: "system".to_owned(),
            ..ShareStatus::default()
        };
        LineReport {
            node: "n".to_owned(),
            backend: "kernel".to_owned(),
            line: LineStatus {
                name: "eth0".to_owned(),
                divided_by: divided_by.to_owned(),
                shares: vec![share],
                ..LineStatus::default()
            },
        }
    }
}

//! Labs that stand: listing them, and taking them away.

use serde::Serialize;

use crate::LabError;
use crate::record::Record;
use crate::report::timestamp;
use crate::teardown::tear_down;

/// A lab that stands.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    /// Its name.
    pub run: String,
    /// The scenario's name.
    pub scenario: String,
    /// When it was started, in UTC (RFC 3339).
    pub started: String,
    /// How many pods it has.
    pub pods: usize,
    /// The process that runs it, when it is still at work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<i32>,
}

/// Which labs are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// The only one that there is.
    TheOnly,
    /// The one of this name.
    Run(String),
    /// All that nobody is running.
    All,
}

/// The labs that stand, in the order of their names.
///
/// # Errors
///
/// A record that can't be read.
pub fn list() -> Result<Vec<Listed>, LabError> {
    let listed = |record: Record| Listed {
        started: timestamp(record.started),
        pods: record.nodes.iter().map(|node| node.pods.len()).sum(),
        running: record.living_owner().map(|owner| owner.pid),
        run: record.run,
        scenario: record.scenario,
    };
    Ok(Record::all()?.into_iter().map(listed).collect())
}

/// Takes labs away, and returns the names of those that were.
///
/// # Errors
///
/// None that is meant, or one that is being run; and the first that left something over, when all
/// have been tried.
pub fn down(which: &Which) -> Result<Vec<String>, LabError> {
    let records = match which {
        Which::Run(run) => vec![unused(Record::read(run)?)?],
        Which::All => Record::all()?
            .into_iter()
            .filter_map(|record| unused(record).ok())
            .collect(),
        Which::TheOnly => {
            let records = Record::all()?;
            if records.len() > 1 {
                return Err(LabError::WhichLab(
                    records.into_iter().map(|r| r.run).collect(),
                ));
            }
            records.into_iter().map(unused).collect::<Result<_, _>>()?
        }
    };
    let mut gone = Vec::new();
    let mut first_error = None;
    for record in records {
        match tear_down(&record) {
            Ok(()) => gone.push(record.run),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    match first_error {
        None => Ok(gone),
        Some(error) => Err(error),
    }
}

/// A lab whose process is at work is taken away by that.
fn unused(record: Record) -> Result<Record, LabError> {
    match record.living_owner() {
        None => Ok(record),
        Some(owner) => Err(LabError::InUse {
            run: record.run,
            pid: owner.pid,
        }),
    }
}

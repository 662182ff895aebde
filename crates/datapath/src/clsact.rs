//! Whose clsact it is, where limits and rules share an interface: who goes last removes what the
//! first one made.
//!
//! Rules read the records of limits. Limits are put in force by the plugin, too, which knows no
//! rules: of what those have written down it reads the part that concerns it.

use netqos_core::Attachment;
use serde::Deserialize;

use crate::record::SideName;
use crate::{Documents, Paths};

/// What concerns limits of a record of rules.
#[derive(Deserialize)]
struct OfRules {
    attachment: Attachment,
    side: SideName,
    index: u32,
    made_clsact: bool,
}

/// True when rules have made the clsact of this link of an attachment's.
pub(crate) fn is_made_by_rules(
    paths: &Paths,
    attachment: &Attachment,
    side: SideName,
    index: u32,
) -> bool {
    let documents = Documents::new(paths.rules());
    // What this build cannot read is for the one that wrote it.
    let mut names = documents.names().unwrap_or_default().into_iter();
    names.any(|name| {
        let site: Option<OfRules> = documents.peek(&name);
        site.is_some_and(|site| {
            site.made_clsact
                && site.attachment == *attachment
                && (site.side, site.index) == (side, index)
        })
    })
}

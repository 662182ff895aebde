//! Names of the interfaces that a pod's networks get.

use super::error::quoted;
use super::{NetworkSelection, SelectionError};

/// The names of interfaces whose entries give none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InterfaceNames {
    /// `net1`, `net2`, …, as Multus does.
    #[default]
    Net,
    /// `eth1`, `eth2`, …, as Kuryr does.
    Eth,
}

impl InterfaceNames {
    const fn prefix(self) -> &'static str {
        match self {
            Self::Net => "net",
            Self::Eth => "eth",
        }
    }
}

/// Returns the names of a pod's interfaces, in the order of its selections. An entry without a name gets its position,
/// from 1, also behind entries that have one: `[{a, interface: x}, {b}]` has `x` and `net2`. `default` is the interface
/// of the default network.
///
/// # Errors
/// Returns an error if two interfaces would have one name.
pub fn interface_names(
    selections: &[NetworkSelection],
    names: InterfaceNames,
    default: &str,
) -> Result<Vec<String>, SelectionError> {
    let mut taken: Vec<String> = Vec::with_capacity(selections.len());
    for (index, selection) in selections.iter().enumerate() {
        let generated = || format!("{}{}", names.prefix(), index + 1);
        let name = selection.interface.clone().unwrap_or_else(generated);
        let holder = match taken.iter().position(|other| *other == name) {
            Some(other) => Some(format!("entry {} has it", other + 1)),
            None => (name == default).then(|| "the default network's has it".to_owned()),
        };
        if let Some(holder) = holder {
            let message = format!("interface name {} is taken: {holder}", quoted(&name));
            let error = SelectionError::of_entry(message);
            return Err(error.in_entry(index, &selection.nad.to_string()));
        }
        taken.push(name);
    }
    Ok(taken)
}

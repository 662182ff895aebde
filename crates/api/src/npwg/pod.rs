//! All networks that a pod selects.

use super::{
    DEFAULT_NETWORK, DEFAULT_NETWORK_NAMESPACE, InterfaceNames, NETWORKS, NetworkSelection,
    SelectionError, interface_names, parse_default_network, parse_selections,
};

/// The networks that a pod selects, with the names of their interfaces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSelections {
    /// The network in place of the default one.
    pub default_network: Option<NetworkSelection>,
    /// The networks beside it.
    pub networks: Vec<(NetworkSelection, String)>,
}

/// An error in one of the annotations that select a pod's networks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {annotation}: {error}")]
pub struct PodSelectionsError {
    /// The annotation's key.
    pub annotation: &'static str,
    /// The error.
    pub error: SelectionError,
    /// The annotation is valid, and selects a network that it may not. This is never ignored.
    pub is_forbidden: bool,
}

impl PodSelections {
    /// Reads the annotations [`NETWORKS`] and [`DEFAULT_NETWORK`] of a pod in this namespace. `default_interface` is the
    /// interface of its default network.
    ///
    /// # Errors
    /// Returns the first error of the annotations; and an error if the network in place of the default one is not of
    /// [`DEFAULT_NETWORK_NAMESPACE`].
    pub fn of(
        pod_namespace: &str,
        networks: Option<&str>,
        default_network: Option<&str>,
        names: InterfaceNames,
        default_interface: &str,
    ) -> Result<Self, PodSelectionsError> {
        let of = |annotation| {
            move |error| PodSelectionsError {
                annotation,
                error,
                is_forbidden: false,
            }
        };
        let selections = parse_selections(networks.unwrap_or_default(), pod_namespace);
        let selections = selections.map_err(of(NETWORKS))?;
        let names = interface_names(&selections, names, default_interface);
        let names = names.map_err(of(NETWORKS))?;
        let text = default_network.unwrap_or_default();
        let default_network = parse_default_network(text, DEFAULT_NETWORK_NAMESPACE);
        let default_network = default_network.map_err(of(DEFAULT_NETWORK))?;
        if let Some(NetworkSelection { nad, .. }) = &default_network
            && &*nad.namespace != DEFAULT_NETWORK_NAMESPACE
        {
            // The pod's addresses for the whole cluster come from it, and network policies hold where its plugins say.
            return Err(PodSelectionsError {
                annotation: DEFAULT_NETWORK,
                error: SelectionError::of_list(format!(
                    "only NetworkAttachmentDefinitions of {DEFAULT_NETWORK_NAMESPACE} stand in for the default network, and not \
                     {nad}"
                )),
                is_forbidden: true,
            });
        }
        let named = default_network
            .as_ref()
            .and_then(|it| it.interface.as_deref());
        if named.is_some_and(|name| name != default_interface) {
            return Err(of(DEFAULT_NETWORK)(SelectionError::of_list(format!(
                "the runtime names the interface of the default network: {default_interface}"
            ))));
        }
        let leading = selections.iter().chain(&default_network);
        if leading.filter(|it| it.default_route.is_some()).count() > 1 {
            let two =
                "default-route is a key of several networks, also of those of the other annotation";
            return Err(of(DEFAULT_NETWORK)(SelectionError::of_list(two.to_owned())));
        }
        Ok(Self {
            default_network,
            networks: selections.into_iter().zip(names).collect(),
        })
    }
}

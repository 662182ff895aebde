//! Documents of CNI.

mod plugin_call;
mod result;

use netqos_cni::CniVersion;
use netqos_cni::runtime::{NetworkConfigList, PluginConfig};
use netqos_core::{Attachment, Tag};

pub use plugin_call::plugin_call;
pub use result::cni_result;

/// A list, and a single plugin made into one: every plugin has a type, and what a plugin would be
/// sent reads back as the same.
pub fn network_list(text: &str) {
    match NetworkConfigList::parse(text.as_bytes()) {
        Ok(list) => {
            assert_eq!(list.text, text.as_bytes());
            each_plugin_reads_back(&list);
        }
        Err(error) => {
            let message = error.to_string();
            let known = ["error parsing configuration list: ", "failed to parse "];
            assert!(known.iter().any(|k| message.starts_with(k)), "{message}");
        }
    }

    let Ok(list) = NetworkConfigList::parse_single(text.as_bytes()) else {
        return;
    };
    assert_eq!(list.plugins.len(), 1, "{text:?}");
    each_plugin_reads_back(&list);
    assert_eq!(
        list.plugins.first(),
        PluginConfig::parse(text.as_bytes()).ok().as_ref()
    );
    // What goes into the cache is the list that was made of it.
    assert_eq!(NetworkConfigList::parse(&list.text).ok(), Some(list));
}

fn each_plugin_reads_back(list: &NetworkConfigList) {
    // Above it there is only what the list says itself, when it says nothing else.
    let chosen_among_several = list.version <= CniVersion::CURRENT;
    let names_it = String::from_utf8_lossy(&list.text).contains("cniVersion");
    assert!(chosen_among_several || names_it, "{list:?}");
    for plugin in &list.plugins {
        assert!(!plugin.kind.is_empty(), "{plugin:?}");
        let printed = serde_json::to_vec(&plugin.raw).expect("an object can be printed");
        assert_eq!(PluginConfig::parse(&printed).ok().as_ref(), Some(plugin));
    }
}

/// What reads as a tag is that tag, and three names that are allowed have one of their network.
/// The text is a tag, or the three names, one a line.
pub fn attachment_tag(text: &str) {
    if let Ok(tag) = text.parse::<Tag>() {
        assert_eq!(&*tag, text);
    }
    let mut names = text.splitn(3, '\n');
    let (Some(network), Some(container), Some(interface)) =
        (names.next(), names.next(), names.next())
    else {
        return;
    };
    let Ok(attachment) = Attachment::try_new(network, container, interface) else {
        return;
    };
    let parts = (
        attachment.network(),
        attachment.container(),
        attachment.interface(),
    );
    assert_eq!(parts, (network, container, interface));
    let tag = attachment.tag();
    assert!(tag.is_of_network(network), "{tag}");
    assert_eq!(tag.parse(), Ok(tag));
}

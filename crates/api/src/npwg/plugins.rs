//! The keys of plugins' configurations, and what each reaches on the host.
//!
//! The plugins are those of containernetworking/plugins 1.9, whereabouts 0.9, sriov-cni 2.10 and OVN-Kubernetes 1.3. All
//! of them read keys without regard to case; here only the exact spelling is known.

/// The part of the host that a key of a plugin's configuration reaches.
#[derive(Clone, Copy, Debug)]
pub(super) enum Key {
    /// Nothing but the pod and the plugin's own objects.
    Free,
    /// The interface of this name, or what there is instead without one.
    Master(Absent),
    /// The device of this name.
    Device,
    /// The file or directory of this path.
    Path,
    /// The host's routes or packet filters, or other pods, with another value than these, `false` and no value.
    Host(&'static [&'static str]),
    /// The configuration of another plugin, for addresses.
    Ipam,
    /// The same, where the host gets a route to each of these addresses.
    RoutedIpam,
    /// An object with these keys, or a list of such objects.
    Keys(Keys),
}

/// Keys and what they reach.
pub(super) type Keys = &'static [(&'static str, Key)];

/// The interface that a plugin takes when the configuration names none.
#[derive(Clone, Copy, Debug)]
pub(super) enum Absent {
    /// None: the plugin fails, or takes none.
    None,
    /// This one.
    Is(&'static str),
}

/// The interface that the host's default route leads through, in place of a name.
pub const DEFAULT_ROUTE: &str = "default-route";

use Absent::{Is, None as Nothing};
use Key::{Device, Free, Host, Ipam, Keys as Object, Master, Path, RoutedIpam};

/// The keys of each known type, without those that all plugins have.
pub(super) const PLUGINS: &[(&str, Keys)] = &[
    (
        "bridge",
        &[
            ("bridge", Master(Is("cni0"))),
            // A route of the node to a subnet of the author's choice, by an address on the bridge.
            ("isGateway", Host(&[])),
            ("isDefaultGateway", Host(&[])),
            ("forceAddress", Host(&[])),
            ("ipMasq", Host(&[])),
            ("ipMasqBackend", Free),
            ("mtu", Free),
            ("hairpinMode", Free),
            ("promiscMode", Host(&[])),
            ("vlan", Free),
            ("vlanTrunk", Free),
            ("preserveDefaultVlan", Free),
            ("macspoofchk", Free),
            ("enabledad", Free),
            ("disableContainerInterface", Free),
            ("portIsolation", Free),
            ("ipam", Ipam),
        ],
    ),
    (
        "macvlan",
        &[
            ("master", Master(Is(DEFAULT_ROUTE))),
            // Takes the interface from the host.
            ("mode", Host(&["bridge", "private", "vepa"])),
            ("mtu", Free),
            ("mac", Free),
            ("linkInContainer", Free),
            ("bcqueuelen", Free),
            ("ipam", Ipam),
        ],
    ),
    (
        "ipvlan",
        &[
            ("master", Master(Is(DEFAULT_ROUTE))),
            ("mode", Free),
            ("mtu", Free),
            ("linkInContainer", Free),
            ("ipam", Ipam),
        ],
    ),
    (
        "vlan",
        &[
            ("master", Master(Nothing)),
            ("vlanId", Free),
            ("mtu", Free),
            ("linkInContainer", Free),
            ("ipam", Ipam),
        ],
    ),
    (
        "ptp",
        &[
            ("ipMasq", Host(&[])),
            ("ipMasqBackend", Free),
            ("mtu", Free),
            // Also an address that another pod, or the node itself, has.
            ("ipam", RoutedIpam),
        ],
    ),
    (
        "host-device",
        &[
            ("device", Device),
            ("hwaddr", Device),
            ("kernelpath", Device),
            ("pciBusID", Device),
            ("ipam", Ipam),
        ],
    ),
    ("loopback", &[]),
    ("dummy", &[("ipam", Ipam)]),
    (
        "tap",
        &[
            ("multiQueue", Free),
            ("mtu", Free),
            ("mac", Free),
            ("owner", Free),
            ("group", Free),
            ("selinuxContext", Host(&[])),
            ("bridge", Free),
            ("ipam", Ipam),
        ],
    ),
    (
        "bandwidth",
        &[
            ("ingressRate", Free),
            ("ingressBurst", Free),
            ("egressRate", Free),
            ("egressBurst", Free),
            ("shapedSubnets", Free),
            ("unshapedSubnets", Free),
            // netqos' own.
            ("egress", Free),
            ("hook", Free),
            ("unit", Free),
            ("bpffs", Path),
        ],
    ),
    (
        "firewall",
        &[
            ("backend", Free),
            ("iptablesAdminChainName", Host(&[])),
            ("firewalldZone", Host(&[])),
            ("ingressPolicy", Host(&["open"])),
        ],
    ),
    (
        "portmap",
        &[
            // Pods take ports of the node.
            ("capabilities", Object(&[("portMappings", Host(&[]))])),
            ("backend", Free),
            ("snat", Free),
            ("masqAll", Free),
            ("conditionsV4", Host(&[])),
            ("conditionsV6", Host(&[])),
            ("markMasqBit", Host(&[])),
            ("externalSetMarkChain", Host(&[])),
        ],
    ),
    (
        "sbr",
        &[
            ("table", Free),
            ("gateways", Free),
            ("addSourceHints", Free),
        ],
    ),
    (
        "tuning",
        &[
            ("dataDir", Path),
            ("sysctl", Free),
            ("mac", Free),
            ("promisc", Free),
            ("mtu", Free),
            ("allmulti", Free),
            ("txQLen", Free),
        ],
    ),
    ("vrf", &[("vrfname", Free), ("table", Free)]),
    (
        "host-local",
        &[
            ("ranges", Free),
            ("subnet", Free),
            ("rangeStart", Free),
            ("rangeEnd", Free),
            ("gateway", Free),
            ("routes", Free),
            ("dataDir", Path),
            ("resolvConf", Path),
        ],
    ),
    ("static", &[("addresses", ADDRESSES), ("routes", Free)]),
    (
        "dhcp",
        &[
            ("daemonSocketPath", Path),
            ("provide", Free),
            ("request", Free),
            ("priority", Free),
        ],
    ),
    (
        "whereabouts",
        &[
            ("range", Free),
            ("range_start", Free),
            ("range_end", Free),
            ("exclude", Free),
            ("ipRanges", Free),
            ("addresses", ADDRESSES),
            ("routes", Free),
            ("gateway", Free),
            ("network_name", Free),
            ("node_slice_size", Free),
            ("enable_overlapping_ranges", Free),
            ("sleep_for_race", Free),
            ("leader_lease_duration", Free),
            ("leader_renew_deadline", Free),
            ("leader_retry_period", Free),
            ("log_level", Free),
            ("log_file", Path),
            ("reconciler_cron_expression", Free),
            ("configuration_path", Path),
            // Its file may name programs that are run.
            ("kubernetes", Object(&[("kubeconfig", Path)])),
            // Of older versions, without effect.
            ("datastore", Free),
        ],
    ),
    (
        "sriov",
        &[
            ("deviceID", Device),
            ("vlan", Free),
            ("vlanQoS", Free),
            ("vlanProto", Free),
            ("min_tx_rate", Free),
            ("max_tx_rate", Free),
            ("link_state", Free),
            ("spoofchk", Host(&["on"])),
            ("trust", Host(&["off"])),
            ("logLevel", Free),
            ("logFile", Path),
            ("ipam", Ipam),
        ],
    ),
    (
        "ovn-k8s-cni-overlay",
        &[
            // The network: NADs with one name are on the same network, in whatever namespaces they are.
            ("name", Master(Nothing)),
            ("netAttachDefName", Free),
            ("topology", Free),
            ("role", Free),
            ("mtu", Free),
            ("subnets", Free),
            ("excludeSubnets", Free),
            ("reservedSubnets", Free),
            ("infrastructureSubnets", Free),
            ("joinSubnet", Free),
            ("transitSubnet", Free),
            ("defaultGatewayIPs", Free),
            ("vlanID", Free),
            ("allowPersistentIPs", Free),
            ("physicalNetworkName", Master(Nothing)),
            ("uplink", Master(Nothing)),
            ("deviceID", Device),
            ("transport", Host(&[])),
            ("outboundSNAT", Host(&[])),
            ("logLevel", Free),
            ("logFile", Path),
            ("logfile-maxsize", Free),
            ("logfile-maxbackups", Free),
            ("logfile-maxage", Free),
        ],
    ),
];

/// Arguments that pods may give as well.
pub(super) const ARGS: Key = Object(&[("cni", Free)]);

/// The keys of an address. Go has more of them, which take precedence.
const ADDRESSES: Key = Object(&[("address", Free), ("gateway", Free)]);

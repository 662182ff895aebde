//! What stands behind the virtual addresses of Services.

use std::collections::{BTreeMap, BTreeSet};

use netqos_core::ObjectName;
use netqos_core::objects::{EndpointSlice, Service};
use netqos_core::plan::{Backend, ServicePort};

use crate::addresses::canonical;
use crate::hash::HashMap;

/// Services and their endpoints.
#[derive(Debug, Default)]
pub(crate) struct Services {
    services: BTreeMap<ObjectName, Service>,
    slices: HashMap<ObjectName, EndpointSlice>,
    slices_of: HashMap<ObjectName, BTreeSet<ObjectName>>,
    /// Who has a virtual address; more than one only while it moves.
    owners: HashMap<ServicePort, BTreeSet<ObjectName>>,
    dirty: BTreeSet<ServicePort>,
}

impl Services {
    pub(crate) fn put(&mut self, mut service: Service) {
        canonical(&mut service.addresses);
        if self.services.get(&service.name) == Some(&service) {
            return;
        }
        self.remove(&service.name.clone());
        for port in ports(&service) {
            let owners = self.owners.entry(port).or_default();
            owners.insert(service.name.clone());
            self.dirty.insert(port);
        }
        self.services.insert(service.name.clone(), service);
    }

    pub(crate) fn remove(&mut self, name: &ObjectName) {
        let Some(service) = self.services.remove(name) else {
            return;
        };
        for port in ports(&service) {
            self.dirty.insert(port);
            if let Some(owners) = self.owners.get_mut(&port) {
                owners.remove(name);
                if owners.is_empty() {
                    self.owners.remove(&port);
                }
            }
        }
    }

    pub(crate) fn put_slice(&mut self, mut slice: EndpointSlice) {
        canonical(&mut slice.addresses);
        if self.slices.get(&slice.name) == Some(&slice) {
            return;
        }
        self.remove_slice(&slice.name.clone());
        let service = service_of(&slice);
        self.touch(&service);
        let slices = self.slices_of.entry(service).or_default();
        slices.insert(slice.name.clone());
        self.slices.insert(slice.name.clone(), slice);
    }

    pub(crate) fn remove_slice(&mut self, name: &ObjectName) {
        let Some(slice) = self.slices.remove(name) else {
            return;
        };
        let service = service_of(&slice);
        self.touch(&service);
        if let Some(slices) = self.slices_of.get_mut(&service) {
            slices.remove(name);
            if slices.is_empty() {
                self.slices_of.remove(&service);
            }
        }
    }

    /// The ports whose backends may have changed.
    pub(crate) fn take_dirty(&mut self) -> BTreeSet<ServicePort> {
        std::mem::take(&mut self.dirty)
    }

    /// All ports.
    pub(crate) fn all(&self) -> impl Iterator<Item = ServicePort> {
        self.owners.keys().copied()
    }

    /// The services that have this port, by name.
    pub(crate) fn owners(&self, port: &ServicePort) -> impl Iterator<Item = &ObjectName> {
        self.owners.get(port).into_iter().flatten()
    }

    /// What stands behind a port: addresses of its own family, each with the port that the slice
    /// gives to the Service's port by name and protocol.
    pub(crate) fn backends(&self, port: &ServicePort) -> BTreeSet<Backend> {
        let mut backends = BTreeSet::new();
        let owners = self.owners(port);
        for service in owners.filter_map(|owner| self.services.get(owner)) {
            let same = |spec: &&netqos_core::objects::ServicePortSpec| {
                spec.port == port.port && spec.protocol == port.protocol
            };
            let slices = self.slices_of.get(&service.name).into_iter().flatten();
            for slice in slices.filter_map(|name| self.slices.get(name)) {
                for spec in service.ports.iter().filter(same) {
                    let targets = slice.ports.iter().filter(|target| {
                        target.name == spec.name && target.protocol == spec.protocol
                    });
                    for target in targets {
                        let family = |address: &&std::net::IpAddr| {
                            address.is_ipv4() == port.address.is_ipv4()
                        };
                        let addresses = slice.addresses.iter().filter(family);
                        backends.extend(addresses.map(|address| Backend {
                            address: *address,
                            port: target.port,
                        }));
                    }
                }
            }
        }
        backends
    }

    fn touch(&mut self, service: &ObjectName) {
        if let Some(service) = self.services.get(service) {
            self.dirty.extend(ports(service));
        }
    }
}

fn ports(service: &Service) -> impl Iterator<Item = ServicePort> {
    service.addresses.iter().flat_map(|address| {
        service.ports.iter().map(|spec| ServicePort {
            address: *address,
            protocol: spec.protocol,
            port: spec.port,
        })
    })
}

fn service_of(slice: &EndpointSlice) -> ObjectName {
    ObjectName {
        namespace: slice.name.namespace.clone(),
        name: slice.service.clone(),
    }
}

//! What a replica has asked of the API server.

use netqos_faults::Request;

use super::World;

impl World {
    /// What a replica has asked for: verb and resource.
    pub(crate) fn requests(&self, of: &str) -> Vec<(String, String)> {
        let requests = self.front.requests().into_iter();
        requests
            .filter(|it| it.client == of)
            .map(|it| (it.verb.to_owned(), it.resource))
            .collect()
    }

    /// How often a replica has written statuses.
    pub(crate) fn status_writes(&self, of: &str) -> usize {
        let requests = self.requests(of).into_iter();
        let wrote =
            requests.filter(|(verb, resource)| verb == "patch" && resource == "networkqoses");
        wrote.count()
    }

    /// How often a replica has changed slices that there were.
    pub(crate) fn slice_updates(&self, of: &str) -> usize {
        let requests = self.requests(of).into_iter();
        let wrote = requests.filter(|(verb, resource)| {
            resource == "networkqospeerslices" && ["update", "delete"].contains(&verb.as_str())
        });
        wrote.count()
    }

    /// How often a replica has written anything but the lease.
    pub(crate) fn writes(&self, of: &str) -> usize {
        let reading = ["get", "list", "watch"];
        let requests = self.requests(of).into_iter();
        requests
            .filter(|(verb, resource)| !reading.contains(&verb.as_str()) && resource != "leases")
            .count()
    }

    /// The requests of a replica with this verb and resource.
    pub(crate) fn requests_for(&self, of: &str, verb: &str, resource: &str) -> Vec<Request> {
        let mut requests = self.front.requests();
        requests.retain(|it| {
            (it.client.as_str(), it.verb, it.resource.as_str()) == (of, verb, resource)
        });
        requests
    }

    /// The writes of a replica among the requests from this number on, apart from those of the Lease.
    pub(crate) fn writes_since(&self, of: &str, number: usize) -> Vec<Request> {
        let mut requests = self.front.requests().split_off(number);
        requests.retain(|it| it.client == of && it.is_write() && it.resource != "leases");
        requests
    }
}

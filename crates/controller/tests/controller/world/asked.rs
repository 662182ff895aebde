//! What a replica has asked of the API server.

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
}

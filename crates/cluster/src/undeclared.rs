//! Fields that the definition on the server does not have, since it is an older one.

use std::collections::BTreeSet;

/// Those of the optional fields of a kind that objects are written without.
#[derive(Clone, Debug)]
pub struct Undeclared {
    optional: &'static [&'static str],
    fields: BTreeSet<&'static str>,
}

impl Undeclared {
    /// None of these, which not all versions of the definition have.
    pub const fn among(optional: &'static [&'static str]) -> Self {
        Self {
            optional,
            fields: BTreeSet::new(),
        }
    }

    /// A server refuses an object for fields that are not declared ([`is_undeclared`](crate::is_undeclared)):
    /// those of them that are optional are left out from now on. False where that leaves out nothing more,
    /// so that it would refuse the object again.
    pub fn add(&mut self, refusal: &str) -> bool {
        let before = self.fields.len();
        let all = self.optional.iter();
        let named = all.filter(|it| refusal.contains(&format!(".{it}:")));
        self.fields.extend(named);
        self.fields.len() > before
    }

    /// True where the definition does not have this field.
    pub fn has(&self, field: &str) -> bool {
        self.fields.contains(field)
    }

    /// All that it does not have.
    pub fn fields(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_refusal_names_is_left_out_where_that_may_be() {
        let mut undeclared = Undeclared::among(&["uid", "agentPod", "nodes"]);
        assert!(undeclared.add(".policies[0].uid: field not declared in schema"));
        // Of another object that was on its way.
        assert!(!undeclared.add(".policies[3].uid: field not declared in schema"));
        assert!(undeclared.fields().eq(["uid"]) && !undeclared.has("nodes"));
        assert!(!undeclared.add(".spec.other: field not declared in schema"));
        assert!(undeclared.fields().eq(["uid"]));
        let both =
            "[.agentPod: field not declared in schema, .nodes: field not declared in schema]";
        assert!(undeclared.add(both));
        assert!(undeclared.has("agentPod") && undeclared.has("nodes"));
    }
}

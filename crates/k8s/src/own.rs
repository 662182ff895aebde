//! netqos' own API group, and what resources without a `spec` have in common.

/// The group of netqos' own resources.
pub(crate) const GROUP: &str = "netqos.io";
/// Their version.
pub(crate) const VERSION: &str = "v1alpha1";
/// Both, as an object says them.
pub(crate) const API_VERSION: &str = "netqos.io/v1alpha1";

/// Makes a type a resource of the group. Derive does so only for those that have a `spec`. The type has
/// `metadata`, and its fields `api_version` and `kind` are written by the functions of these names.
macro_rules! plain_resource {
    ($type:ident, $plural:literal, $scope:ty) => {
        impl kube::Resource for $type {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                stringify!($type).into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $crate::own::GROUP.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $crate::own::VERSION.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }

        fn api_version<S: serde::Serializer>((): &(), serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_str($crate::own::API_VERSION)
        }

        fn kind<S: serde::Serializer>((): &(), serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_str(stringify!($type))
        }
    };
}

pub(crate) use plain_resource;

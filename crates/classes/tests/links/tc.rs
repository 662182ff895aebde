//! The backend of the proposal divides lines among real pods' traffic.

mod in_the_way;
mod order_of_changes;
mod pods_are_known;
mod shares_take_effect;
mod what_it_does_not_do_is_said;

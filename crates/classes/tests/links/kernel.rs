//! The kernel backend divides lines among real pods' traffic.

mod a_line_of_several_links;
mod a_pods_limit_holds_for_its_flows;
mod fair_leaves;
mod first_division;
mod flows_are_matched;
mod hooks_of_both_kinds;
mod idle_lines_are_not_divided;
mod limit_changes;
mod loads;
mod many_lines;
mod one_pod_stops_no_other;
mod order_of_changes;
mod others_are_left_alone;
mod pods_are_known;
mod shares_take_effect;
mod stalled_leaves;
mod tunnels;
mod two_lines;
mod what_waits_goes_out;

mod judgement;
mod permissions;
mod selections;
mod statuses;

//! Mistakes made on purpose in what both scripts do with leases.

use super::super::kill::Mistakes;
use super::play::Stage;

const MISTAKES: Mistakes<Stage, 2> = Mistakes {
    scripts: [
        ("check", include_str!("../../../lua/check.lua")),
        ("slots", include_str!("../../../lua/slots.lua")),
    ],
    list: include_str!("../mutants_leases.json"),
    stage: |client, [check, slots]| Stage::with(client, check, slots),
    steps: 15_000,
    seed: 7,
};

#[test]
fn the_scripts_as_they_are_survive() {
    MISTAKES.scripts_survive();
}

#[test]
fn every_mistake_is_noticed() {
    MISTAKES.are_noticed();
}

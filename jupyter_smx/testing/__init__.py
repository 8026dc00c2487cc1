"""What every engine must pass, shipped with the package: contract suite, fakes named by failure, state machine."""

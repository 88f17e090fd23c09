"""Trust regions on the dangerous path: constraints on actions and on states, and none."""

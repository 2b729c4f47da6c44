q1_aggregate.sv
q1_group.sv
q1_rows.sv
zsr_q1.sv

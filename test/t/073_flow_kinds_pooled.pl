# All of 072_flow_kinds.pl with shared receive pools of the smallest size, which all producers of a consumer claim from, two lanes, and memory that all
# flows of a replicating producer send from.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;

our $settings = "rdma_fdw.receive_buffers = 1\nrdma_fdw.receive_buffer_size = 64\nrdma_fdw.engine_lanes = 2\nrdma_fdw.disable = 'value_costs, receive_pool_costs'\n";
do "$FindBin::Bin/072_flow_kinds.pl" or die $@ || $!;

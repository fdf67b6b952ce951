#!/bin/sh
# Settings that most scripts on Linux's TCP start from: buffers for a window scale of 8, no ECN, all of loss recovery.
sysctl -q net.ipv4.tcp_rmem="4096 540000 15728640"
sysctl -q net.ipv4.tcp_wmem="4096 262144 4194304"
sysctl -q net.ipv4.tcp_syn_retries=5
sysctl -q net.ipv4.tcp_synack_retries=5
sysctl -q net.ipv4.tcp_sack=1
sysctl -q net.ipv4.tcp_dsack=1
sysctl -q net.ipv4.tcp_reordering=3
sysctl -q net.ipv4.tcp_recovery=1
sysctl -q net.ipv4.tcp_frto=2
sysctl -q net.ipv4.tcp_congestion_control=cubic
sysctl -q net.ipv4.tcp_slow_start_after_idle=0
sysctl -q net.ipv4.tcp_early_retrans=4
sysctl -q net.ipv4.tcp_ecn=0
sysctl -q net.ipv4.tcp_tso_win_divisor=3

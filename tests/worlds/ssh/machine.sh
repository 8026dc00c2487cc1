#!/bin/sh
# Boots one machine: runs as process 1 of new namespaces for processes, mounts, the host name and the network.
# Its output is first its process number as the starter counts, then "ready". In between it reads a line, which says that
# the network card is there. Words: folder with the disks, host name, number of the machine, Python's own folder or "".
set -eu
disks=$1 name=$2 number=$3 python=$4

read -r pid _ </proc/self/stat # the starter's /proc, which is still mounted, counts as the starter does
echo "$pid"

hostname "$name"
cd "$disks/system"
bind() { mount --bind "$1" "$2" && mount -o remount,bind,ro "$2"; }
bind /usr usr
mount -t tmpfs -o mode=755,size=1m local usr/local
for folder in bin sbin lib lib32 lib64 libx32; do
  if [ -d "/$folder" ] && [ ! -L "/$folder" ]; then bind "/$folder" "$folder"; fi
done
if [ -n "$python" ]; then bind "$python" opt/base; fi
mount --bind "$disks/home" home
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs -o mode=755,size=1m dev dev
for node in null zero full random urandom tty; do
  : >"dev/$node"
  mount --bind "/dev/$node" "dev/$node"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
mount -t tmpfs -o mode=1777,size=256m shm dev/shm
mount -t tmpfs -o mode=1777,size=256m tmp tmp
mount -t tmpfs -o mode=755,size=16m run run
mkdir -m 755 run/sshd

ip link set lo up
read -r _
# Neighbours are written down: a packet to a machine that is off vanishes, as it does behind a router.
{
  echo "link set eth0 address 02:00:0a:4d:00:0$number"
  echo "address add 10.77.0.$number/24 dev eth0"
  echo "link set eth0 up"
  echo "route add default via 10.77.0.254"
  for other in 253 254; do echo "neigh replace 10.77.0.$other lladdr 02:00:0a:4d:00:fe dev eth0 nud permanent"; done
  for other in 1 2 3 4; do
    if [ "$other" != "$number" ]; then
      echo "neigh replace 10.77.0.$other lladdr 02:00:0a:4d:00:0$other dev eth0 nud permanent"
    fi
  done
} | ip -batch -

pivot_root . mnt
cd /
umount -l /mnt
echo ready
# It waits for the processes that lost their parents. Nothing of the starter is open any more.
exec /bin/sh -c 'while :; do sleep 2147483647 & wait $!; done' </dev/null >/dev/null 2>&1

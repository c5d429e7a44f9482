package main

// guide is what the demonstration prints when it is ready. It takes the seconds that took, the directory of
// logs, the file with the environment and the path of kubectl.
const guide = `
Quaymaster is ready after %.0[1]f s. Logs are in %[2]s. Try in another terminal, in this directory:

  . %[3]s

  # Four mistakes, refused in one answer that names each with its remedy; nothing is created.
  %[4]s apply -f examples/service-bad.yaml

  # Accepted. The stored object has gained dlb-listener-idle-timeout; an address appears within seconds.
  %[4]s apply -f examples/service-good.yaml
  %[4]s get service shop -o yaml
  bin/mycloud get load-balancers

  # The cloud follows within seconds: max_qps of the listeners without a value of their own becomes 7000.
  %[4]s annotate --overwrite service shop service.beta.kubernetes.io/dlb-listener-maxqps=7000
  bin/mycloud get load-balancers -o yaml

  # node-2 becomes the only ingress node; the members change without a change to the Service.
  %[4]s annotate node node-2 node.beta.kubernetes.io/dlb-ingress-node=true
  bin/mycloud get node-groups -o yaml

  # A platform team's defaults and limits: 5000 for api from the cluster's policy, 8000 for web from the namespace's own. The
  # last command is refused, since the limit of 20000 holds for both.
  %[4]s label namespace default tier=shared
  %[4]s apply -f examples/policy-cluster.yaml
  %[4]s create service loadbalancer api --tcp=80
  %[4]s apply -f examples/policy-namespace.yaml
  %[4]s create service loadbalancer web --tcp=80
  %[4]s get services api web -o yaml
  %[4]s get clusterloadbalancerpolicies,loadbalancerpolicies
  %[4]s annotate --overwrite service web service.beta.kubernetes.io/dlb-listener-maxqps=50000

  # A volume gets its zone and node affinity. Its claim grows to 30 GiB, with a warning to 40 when asked for 35, and is refused
  # what the cloud's volume type does not have.
  %[4]s apply -f examples/volume.yaml
  %[4]s get persistentvolume data -o yaml
  %[4]s patch pvc data -p '{"spec":{"resources":{"requests":{"storage":"30Gi"}}}}'
  %[4]s patch pvc data -p '{"spec":{"resources":{"requests":{"storage":"35Gi"}}}}'
  %[4]s patch pvc data -p '{"spec":{"resources":{"requests":{"storage":"2Ti"}}}}'

  # A stopped instance taints its Node, a deleted one takes it along.
  bin/mycloud get instances
  bin/mycloud stop instance i-node-3
  bin/mycloud delete instance i-node-4
  %[4]s get nodes --watch

  # The load balancers go with their Services.
  %[4]s delete service shop api web
  bin/mycloud get load-balancers

The cloud and both roles of Quaymaster come back when they are killed. Ctrl-C stops everything.
`

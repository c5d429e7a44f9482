package main

// guide is what the demonstration prints when it is ready. It takes the seconds that took, the directory of
// logs and the file with the environment.
const guide = `
Quaymaster is ready after %.0f s. Logs are in %s. Try in another terminal, in this directory:

  . %s

  # Four mistakes, refused in one answer that names each with its remedy; nothing is created.
  bin/tools/kubectl apply -f examples/service-bad.yaml

  # Accepted. The stored object has gained dlb-listener-idle-timeout; an address appears within seconds.
  bin/tools/kubectl apply -f examples/service-good.yaml
  bin/tools/kubectl get service shop -o yaml
  bin/mycloud get load-balancers

  # The cloud follows within seconds: max_qps of the listeners without a value of their own becomes 7000.
  bin/tools/kubectl annotate --overwrite service shop service.beta.kubernetes.io/dlb-listener-maxqps=7000
  bin/mycloud get load-balancers -o yaml

  # node-2 becomes the only ingress node; the members change without a change to the Service.
  bin/tools/kubectl annotate node node-2 node.beta.kubernetes.io/dlb-ingress-node=true
  bin/mycloud get node-groups -o yaml

  # A stopped instance taints its Node, a deleted one takes it along.
  bin/mycloud get instances
  bin/mycloud stop instance i-node-3
  bin/mycloud delete instance i-node-4
  bin/tools/kubectl get nodes --watch

  # The load balancer goes with its Service.
  bin/tools/kubectl delete service shop
  bin/mycloud get load-balancers

The cloud and both roles of Quaymaster come back when they are killed. Ctrl-C stops everything.
`

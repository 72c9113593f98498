package api

import (
	"iter"
	"net/http"

	"github.com/felixlog/felix/auth"
	"github.com/felixlog/felix/internal/cluster"
)

type namespaceBody struct {
	TenantID    string `json:"tenant_id"`
	Namespace   string `json:"namespace"`
	DisplayName string `json:"display_name"`
}

type namespaceRequest struct {
	Namespace   string `json:"namespace" about:"1 to 128 of A-Z a-z 0-9 . _ -, the first a letter or digit"`
	DisplayName string `json:"display_name,omitempty" max:"256"`
}

func namespaceOf(n *cluster.Namespace) any { return namespaceBody{n.Tenant, n.Name, n.DisplayName} }

func listNamespaces(c *call) (answer, error) {
	tenant := c.params["tenant"]
	err := c.needSome(auth.NamespaceManage, "a namespace of tenant "+tenant, func(auth.Object) bool { return true })
	if err != nil {
		return answer{}, err
	}
	p, err := c.pageOf("namespaces", 1)
	if err != nil {
		return answer{}, err
	}
	all := behind(c.image.Namespaces(tenant), p, func(n *cluster.Namespace) string { return n.Name })
	mine := filter(all, func(n *cluster.Namespace) bool {
		return c.identity.Grants.AllowedNamespace(auth.NamespaceManage, tenant, n.Name)
	})
	return ok(fill(p, mine, func(n *cluster.Namespace) []string { return []string{n.Name} }, namespaceOf)), nil
}

// filter passes on what keep accepts.
func filter[T any](from iter.Seq[T], keep func(T) bool) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range from {
			if keep(v) && !yield(v) {
				return
			}
		}
	}
}

func getNamespace(c *call) (answer, error) {
	namespace := c.params["namespace"]
	if err := c.needNamespace(namespace); err != nil {
		return answer{}, err
	}
	n := c.image.Namespace(c.params["tenant"], namespace)
	if n == nil {
		return answer{}, notFound("namespace %s does not exist", clip(namespace))
	}
	return ok(namespaceOf(n)), nil
}

func createNamespace(c *call) (answer, error) {
	b, err := c.readBody()
	if err != nil {
		return answer{}, err
	}
	cmd := cluster.CreateNamespace{Tenant: c.params["tenant"]}
	if cmd.Name, err = b.name("namespace"); err != nil {
		return answer{}, err
	}
	if err := c.needNamespace(cmd.Name); err != nil {
		return answer{}, err
	}
	if cmd.DisplayName, err = displayName(b); err != nil {
		return answer{}, err
	}
	res, err := c.propose(cmd)
	if err != nil {
		return answer{}, err
	}
	if res.Unchanged {
		return answer{}, refuse(http.StatusConflict, codeExists, "namespace %s exists", cmd.Name)
	}
	return created(namespaceBody{cmd.Tenant, cmd.Name, cmd.DisplayName}), nil
}

func deleteNamespace(c *call) (answer, error) {
	namespace := c.params["namespace"]
	if err := c.needNamespace(namespace); err != nil {
		return answer{}, err
	}
	if _, err := c.propose(cluster.DeleteNamespace{Tenant: c.params["tenant"], Name: namespace}); err != nil {
		return answer{}, err
	}
	return done(), nil
}

package gateway

import (
	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/shared/meta"
)

// queryArchived reads ?include_archived=. Where there can be no archive of the topic it is refused for good: what is missing is no
// bucket that will answer later. A topic whose setting is off may have had one: as long as a node has a bucket it is looked into.
func (g *Gateway) queryArchived(c echo.Context, t meta.Topic) (bool, error) {
	asked, err := queryBool(c, "include_archived")
	if err != nil || !asked || t.Settings.Archive {
		return asked, err
	}
	nodes := g.view.Nodes()
	for i := range nodes {
		if nodes[i].Archives {
			return true, nil
		}
	}
	if len(nodes) == 0 {
		return true, nil // none says whether it has one
	}
	return false, badParameter("query/include_archived", "topic %s has no archive: its setting archive is off, and no log node was started with --archive-url. "+
		"Leave the parameter out", t.Name)
}

// Command release packs built programs into the files of a release: archives, Debian packages, bills of materials, a
// manifest for krew, the list of images and checksums. The same programs and time always result in the same files.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// release is what the flags say.
type release struct {
	// version is that of the files, such as 1.2.3.
	version string
	// time is that of the commit.
	time time.Time
	// built is a folder with the programs in OS/ARCHITECTURE, and their manuals in manual/PROGRAM.
	built string
	// out gets the files.
	out string
	// url is where the files will be downloaded from.
	url string
	// image is the name of the image.
	image string
	// sources are the folders of modules.
	sources map[string]string
}

// product is what is shipped under one name.
type product struct {
	name     string
	programs []string
	// platforms are those of its archives, as OS/ARCHITECTURE.
	platforms []string
}

var (
	linux = []string{"linux/amd64", "linux/arm64"}
	// roles has the programs of both roles, and inImage all of the image.
	roles   = product{"quaymaster", []string{"quaymaster", "quaymaster-controllers"}, linux}
	inImage = product{"quaymaster", append([]string{"quayctl"}, roles.programs...), linux}
	// products are all archives. Users call quayctl on their own machines; the others are servers on Linux.
	products = []product{
		roles,
		{"mycloud", []string{"mycloud"}, linux},
		{"quayctl", []string{"quayctl"}, append([]string{"darwin/amd64", "darwin/arm64"}, linux...)},
	}
)

func main() {
	var r release
	var epoch int64
	flag.StringVar(&r.version, "version", "", "version of the files, such as 1.2.3")
	flag.Int64Var(&epoch, "epoch", 0, "time in the files, in seconds since 1970")
	source := flag.String("source", "", "root of the repository; the other folders are absolute")
	flag.StringVar(&r.built, "built", "", "folder with the programs in OS/ARCHITECTURE and their manuals in manual/PROGRAM")
	flag.StringVar(&r.out, "out", "", "folder for the files")
	flag.StringVar(&r.url, "url", "", "where the files will be downloaded from")
	flag.StringVar(&r.image, "image", "", "name of the image")
	ofImage := flag.Bool("licenses", false,
		"only write the licenses of the programs of the image into -built, for the platforms that are arguments")
	flag.Parse()
	r.time = time.Unix(epoch, 0).UTC()
	err := os.Chdir(*source)
	if err == nil {
		r.sources, err = sources()
	}
	switch {
	case err != nil:
	case *ofImage:
		err = r.writeLicensesOfImage(flag.Args())
	default:
		err = r.write()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func (r release) writeLicensesOfImage(platforms []string) error {
	for _, platform := range platforms {
		if err := r.writeLicenses(inImage, platform); err != nil {
			return fmt.Errorf("licenses of the image for %s: %w", platform, err)
		}
	}
	return nil
}

func (r release) write() error {
	for _, p := range products {
		for _, platform := range p.platforms {
			if err := r.writeLicenses(p, platform); err != nil {
				return fmt.Errorf("licenses of %s for %s: %w", p.name, platform, err)
			}
			if err := r.writeArchive(p, platform); err != nil {
				return fmt.Errorf("archive of %s for %s: %w", p.name, platform, err)
			}
			if err := r.writeMaterials(p, platform); err != nil {
				return fmt.Errorf("bill of materials of %s for %s: %w", p.name, platform, err)
			}
		}
	}
	if err := r.writePackages(); err != nil {
		return fmt.Errorf("Debian packages: %w", err)
	}
	if err := r.writePlugin(); err != nil {
		return fmt.Errorf("manifest for krew: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.out, "images.txt"), []byte(r.image+"\n"), 0o644); err != nil {
		return fmt.Errorf("list of images: %w", err)
	}
	return r.writeChecksums()
}

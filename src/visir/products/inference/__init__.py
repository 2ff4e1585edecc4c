"""Categories for products that have none: vectors of products, nearest labelled products, calibrated confidence."""

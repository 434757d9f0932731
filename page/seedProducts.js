// Six products for an empty shop: cheap and expensive, with much and little stock, and one that can be backordered.

import { create, post } from "./api.js";
import { staffMember } from "./people.js";

const GOODS = [
  { product_id: "stoneware-mug", name: "Stoneware mug", price: 1890, stock: 120 },
  { product_id: "linen-apron", name: "Linen apron", price: 4200, stock: 40 },
  { product_id: "walnut-bowl", name: "Walnut bowl", price: 5950, stock: 2 },
  { product_id: "wool-blanket", name: "Wool blanket", price: 8900, stock: 25 },
  { product_id: "brass-lamp", name: "Brass desk lamp", price: 12900, stock: 15 },
  { product_id: "oak-stool", name: "Oak stool", price: 14900, stock: 3, backorder: true },
];

/** Creates the products and their stock. Safe to repeat: existing products stay, and each receipt counts once. */
export async function seedProducts() {
  const as = staffMember();
  for (const { stock, ...product } of GOODS) {
    await create("/api/products", { ...product, currency: "EUR" }, { as });
    const key = `first-stock-of-${product.product_id}`;
    await post(`/api/products/${product.product_id}/receipts`, { quantity: stock }, { as, key });
  }
}

// An OpenID provider with oidc-provider's own pages for sign-in and consent, which accept any name and password.
// Arguments: the port, the redirect URI of the page, and the audience of the API.

import { Provider } from "oidc-provider";

const [port, redirectUri, audience] = process.argv.slice(2);

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{ client_id: "page", redirect_uris: [redirectUri], post_logout_redirect_uris: [redirectUri], token_endpoint_auth_method: "none", grant_types: ["authorization_code", "refresh_token"] }],
  clientBasedCORS: () => true,
  // A subject such as "auth0|1" cannot be an id of the shop.
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, email: `${id.split("|")[1]}@example.com`, email_verified: true }) }),
  extraTokenClaims: (_, token) => ({ email: `${token.accountId.split("|")[1]}@example.com`, email_verified: true, "https://shop.example/groups": token.accountId.endsWith("|staff") ? ["staff"] : [] }),
  issueRefreshToken: () => true,
  claims: { openid: ["sub"], email: ["email", "email_verified"] },
  features: {
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => audience,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({ scope: "openid email", audience, accessTokenFormat: "jwt", jwt: { sign: { alg: "RS256" } } }),
    },
  },
});
provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
